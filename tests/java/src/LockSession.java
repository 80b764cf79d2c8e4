import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The session of one client at offset managers, and the queues that it holds by it (docs/protocol/queue-locks.md 7).
 *
 * <p>A queue that it holds no more is lost: whoever consumes it is called at once, and the queue is not requested
 * again before {@link #forget}. Until then {@link #token} is the old one, which overwrites nothing of another client.
 *
 * <p>Methods throw IOException if no manager has done it, or nobody knows whether one has: all may be repeated.
 */
final class LockSession {
    private static final int CONFLICT = 409;
    private static final int RELEASED_MAX = 100;

    private final OffsetManagerHttp manager;
    private final Supplier<String> clientId;
    private final long ttlMs;
    private final Consumer<MessageQueue> onLost;
    // Changed by one request at a time: an answer that was overtaken would take queues back that were given up since.
    private final Map<MessageQueue, Long> held = new ConcurrentHashMap<>();
    private final Map<MessageQueue, Long> lost = new ConcurrentHashMap<>();
    private String id;
    private volatile Lease lease;

    /** Until when a client may consume, by a clock that nobody sets; renewed after a third of its time to live. */
    private static final class Lease {
        final long validUntilNanos;
        final long renewEveryMs;

        Lease(long validUntilNanos, long renewEveryMs) {
            this.validUntilNanos = validUntilNanos;
            this.renewEveryMs = renewEveryMs;
        }
    }

    /** @param onLost called while a request is under way, for each queue that is lost: must not wait for anything */
    LockSession(OffsetManagerHttp manager, Supplier<String> clientId, long ttlMs, Consumer<MessageQueue> onLost) {
        this.manager = manager;
        this.clientId = clientId;
        this.ttlMs = ttlMs;
        this.onLost = onLost;
    }

    /** Returns whether the client may consume what it holds. */
    boolean isValid() {
        Lease last = lease;
        return last != null && System.nanoTime() - last.validUntilNanos < 0;
    }

    /** Returns how long to wait with the next renewal. */
    long renewEveryMs() {
        Lease last = lease;
        return last == null ? ttlMs / 3 : last.renewEveryMs;
    }

    /** Returns the token for commits of a queue; 0 if it is not held. */
    long token(MessageQueue queue) {
        return held.getOrDefault(queue, lost.getOrDefault(queue, 0L));
    }

    Set<MessageQueue> queues() {
        return Set.copyOf(held.keySet());
    }

    /** Begins the lease again, in a new session if there is none or it has ended. */
    synchronized void renew() throws IOException, InterruptedException {
        // From before the request is sent: the manager counts a whole time to live from when it has it.
        long sentNanos = System.nanoTime();
        Map<?, ?> answer;
        try {
            answer = id == null ? open() : manager.post("/v1/locks/renew", Map.of("sessionId", id));
        } catch (OffsetManagerHttp.Refused e) {
            if (id == null || e.status != CONFLICT) {
                throw e;
            }
            end();
            sentNanos = System.nanoTime();
            answer = open();
        }
        id = (String) answer.get("sessionId");
        keep(tokens((List<?>) answer.get("queues")));
        lease = new Lease(sentNanos + TimeUnit.MILLISECONDS.toNanos(number(answer, "validMs")),
            number(answer, "renewEveryMs"));
    }

    private Map<?, ?> open() throws IOException, InterruptedException {
        return manager.post("/v1/locks/sessions",
            Map.of("group", manager.group(), "clientId", clientId.get(), "ttlMs", ttlMs));
    }

    private void end() {
        id = null;
        lease = null;
        Set.copyOf(held.keySet()).forEach(this::lose);
    }

    private void keep(Map<MessageQueue, Long> confirmed) {
        Map.copyOf(held).forEach((queue, token) -> {
            if (!token.equals(confirmed.get(queue))) {
                lose(queue);
            }
        });
        // Granted by an answer that did not arrive, or not given up for the same reason.
        confirmed.forEach((queue, token) -> {
            if (!lost.containsKey(queue)) {
                held.put(queue, token);
            }
        });
    }

    /** Takes a queue for lost. */
    synchronized void lose(MessageQueue queue) {
        Long token = held.get(queue);
        if (token != null) {
            lost.put(queue, token);
            held.remove(queue);
            onLost.accept(queue);
        }
    }

    /** Nothing of a lost queue is left at the client. */
    synchronized void forget(MessageQueue queue) {
        lost.remove(queue);
    }

    /** Returns whether a queue is held from now on. */
    synchronized boolean acquire(MessageQueue queue) throws IOException, InterruptedException {
        if (!isValid()) {
            renew();
        }
        if (lost.containsKey(queue)) {
            return false;
        }
        Map<?, ?> answer;
        try {
            answer = manager.post("/v1/locks/acquire", Map.of("sessionId", id, "queues", List.of(named(queue))));
        } catch (OffsetManagerHttp.Refused e) {
            if (e.status == CONFLICT) {
                end();
            }
            throw e;
        }
        Map<?, ?> result = (Map<?, ?>) ((List<?>) answer.get("results")).get(0);
        if (result.get("status").equals("granted")) {
            held.put(queue, number(result, "token"));
            return true;
        }
        lose(queue);
        return false;
    }

    /** Gives queues up, each with its last offset, if any: that is stored before anybody else has the queue. */
    synchronized void release(Map<MessageQueue, OffsetManagerHttp.Entry> finals)
        throws IOException, InterruptedException {
        List<MessageQueue> queues = new ArrayList<>(finals.keySet());
        queues.retainAll(held.keySet());
        for (int from = 0; from < queues.size(); from += RELEASED_MAX) {
            List<MessageQueue> some = queues.subList(from, Math.min(from + RELEASED_MAX, queues.size()));
            List<Map<String, Object>> items = new ArrayList<>();
            for (MessageQueue queue : some) {
                OffsetManagerHttp.Entry last = finals.get(queue);
                Map<String, Object> item = named(queue);
                if (last.offset >= 0) {
                    item.put("offset", last.offset);
                    item.put("resetEpoch", last.resetEpoch);
                }
                items.add(item);
            }
            manager.post("/v1/locks/release", Map.of("sessionId", id, "queues", items));
            some.forEach(held::remove);
        }
    }

    /** Ends the session; queues that it still holds are free. */
    synchronized void close() throws IOException, InterruptedException {
        lease = null;
        held.clear();
        if (id != null) {
            manager.post("/v1/locks/close", Map.of("sessionId", id));
            id = null;
        }
    }

    private static Map<MessageQueue, Long> tokens(List<?> queues) {
        Map<MessageQueue, Long> tokens = new HashMap<>();
        for (Object each : queues) {
            Map<?, ?> queue = (Map<?, ?>) each;
            tokens.put(new MessageQueue((String) queue.get("topic"), (String) queue.get("brokerName"),
                (int) number(queue, "queueId")), number(queue, "token"));
        }
        return tokens;
    }

    private static Map<String, Object> named(MessageQueue queue) {
        Map<String, Object> item = new HashMap<>();
        item.put("topic", queue.getTopic());
        item.put("brokerName", queue.getBrokerName());
        item.put("queueId", queue.getQueueId());
        return item;
    }

    private static long number(Map<?, ?> answer, String field) {
        return ((Number) answer.get(field)).longValue();
    }
}
