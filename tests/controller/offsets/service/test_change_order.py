import asyncio

from stored_offset_builders import a_commit

from controller.offsets.service.change_order import ChangeOrder


def write_through(of):
    return of.group == "payments"


async def test_a_later_change_of_a_row_waits_for_the_earlier_one():
    order = ChangeOrder(write_through)
    earlier, later = order.take([a_commit(1)]), order.take([a_commit(2)])
    waiting = asyncio.create_task(later.wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    earlier.end()
    await waiting
    later.end()


async def test_other_rows_and_rows_that_are_not_written_through_wait_for_nobody():
    order = ChangeOrder(write_through)
    held = order.take([a_commit(1)])
    await order.take([a_commit(1, group="billing")]).wait()
    held.end()
    for order in (ChangeOrder(write_through), ChangeOrder(None)):
        order.take([a_commit(1, group="billing")])
        await order.take([a_commit(2, group="billing")]).wait()


async def test_a_row_beside_one_that_is_written_through_keeps_its_order_too():
    order = ChangeOrder(write_through)
    both = order.take([a_commit(1), a_commit(1, group="billing")])
    waiting = asyncio.create_task(order.take([a_commit(2, group="billing")]).wait())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    both.end()
    await waiting


async def test_nothing_is_kept_of_changes_that_are_over():
    order = ChangeOrder(write_through)
    turns = [order.take([a_commit(number)]) for number in range(3)]
    for each in turns:
        await each.wait()
        each.end()
    assert order._last == {}
