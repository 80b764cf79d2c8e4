"""Documents in the simulated etcd: the product's store writes and reads them there, and a backup has them."""

from simulation.faults import Settings
from simulation.injection import of_leader
from simulation.world import World
from store.document_store import ChangedDocument, DocumentStore
from store.documents import DocumentKind

POLICY = DocumentKind.SCALING_POLICY


def with_documents(world, results):
    """Let the leading controller change documents, and a follower read them."""
    leader = of_leader(world)
    follower = next(each for each in world.controllers if each is not leader)

    async def change():
        documents = DocumentStore(leader.backend)
        await documents.load()
        for value in (b"[1]", b"[2]"):
            results.append(await documents.change(POLICY, "Orders", lambda _, value=value: value))
        follower.process.receive(lambda: follower.tasks.start(read(), "read"))

    async def read():
        found = await follower.backend.load_documents(POLICY)
        results.append({name: kept.value for name, kept in found.items()})
        world.etcd.restore(1)
        results.append({name: kept.value for name, kept in (await follower.backend.load_documents(POLICY)).items()})

    leader.process.receive(lambda: leader.tasks.start(change(), "change"))


def test_documents_are_stored_and_put_back_in_a_simulated_world():
    results = []
    world = World(Settings(profile="lost"), ())
    world.at(8_000, lambda: with_documents(world, results))
    world.run()
    assert results == [
        ChangedDocument(None, b"[1]"),
        ChangedDocument(b"[1]", b"[2]"),
        {"Orders": b"[2]"},
        {"Orders": b"[1]"},
    ]
