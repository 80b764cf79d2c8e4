import java.io.IOException;
import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.client.impl.consumer.RebalancePushImpl;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Locks the queues of an orderly push consumer at offset managers (docs/offsets.md) instead of at brokers; works with
 * clients of 5.x, and with offsets at the same managers:
 * <pre>
 * HttpOffsetStore offsets = HttpOffsetStore.install(consumer, "offsets-1:9883;offsets-2:9883", token);
 * HttpQueueLocks.install(consumer, offsets, 60_000);    // before subscribe() and start()
 * </pre>
 *
 * <p>The client has no extension point for locks. So this takes the place of a private field of its own, by reflection:
 * of the object that sends 41 and 42, and decides nothing else differently.
 *
 * <ul>
 * <li>The lease is renewed after a third of its time to live, and each second if that fails. Half of it after the last
 *     renewal that was answered no listener is called any more.
 * <li>A queue that is lost is dropped with everything cached. Once it is held again its offset is read again.
 * <li>A queue that another client is to have, and all of them at a shutdown, are given up with their last offsets.
 * </ul>
 */
public final class HttpQueueLocks extends RebalancePushImpl {
    private static final long RETRY_MS = 1000;

    private final HttpOffsetStore offsets;
    private final LockSession session;
    private final Map<MessageQueue, OffsetManagerHttp.Entry> finals = new ConcurrentHashMap<>();
    private final ScheduledExecutorService timer = Executors.newScheduledThreadPool(2, task -> {
        Thread thread = new Thread(task, "queue-locks");
        thread.setDaemon(true);
        return thread;
    });
    // Guarded by this.
    private boolean isRenewing;
    private Set<MessageQueue> unused = Set.of();

    private HttpQueueLocks(DefaultMQPushConsumerImpl consumer, HttpOffsetStore offsets, long ttlMs) {
        super(consumer);
        this.offsets = offsets;
        session = new LockSession(offsets.manager(), () -> mQClientFactory.getClientId(), ttlMs, this::lost);
        offsets.setLocks(session::token, session::lose);
    }

    /** Lets an orderly consumer without subscriptions yet lock its queues at managers; {@code ttlMs} from 10,000 on. */
    @SuppressWarnings("deprecation")
    public static void install(DefaultMQPushConsumer consumer, HttpOffsetStore offsets, long ttlMs)
        throws ReflectiveOperationException {
        DefaultMQPushConsumerImpl inner = consumer.getDefaultMQPushConsumerImpl();
        // Without it, in clients of 4.9, nobody can shorten the 30 s for which a consumer counts on its lock.
        RebalancePushImpl.class.getMethod("createProcessQueue");
        Field field = DefaultMQPushConsumerImpl.class.getDeclaredField("rebalanceImpl");
        field.setAccessible(true);
        field.set(inner, new HttpQueueLocks(inner, offsets, ttlMs));
    }

    /** Called before each call of a listener: consumers lock again, and wait, while it is expired. */
    private final class LeasedQueue extends ProcessQueue {
        @Override
        public boolean isLockExpired() {
            return !session.isValid();
        }
    }

    // No override for clients of 4.9, with which this is compiled too.
    public ProcessQueue createProcessQueue() {
        return new LeasedQueue();
    }

    @Override
    public boolean lock(MessageQueue queue) {
        try {
            boolean isGranted = session.acquire(queue);
            if (isGranted) {
                confirm(queue);
                beginRenewing();
            }
            return isGranted;
        } catch (IOException e) {
            report("cannot lock " + queue + ": " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return false;
    }

    /** Called every 20 s by the consumer; the session has a timer of its own. */
    @Override
    public void lockAll() {
    }

    private void confirm(MessageQueue queue) {
        ProcessQueue consumed = processQueueTable.get(queue);
        if (consumed != null) {
            consumed.setLocked(true);
            consumed.setLastLockTimestamp(System.currentTimeMillis());
        }
    }

    private synchronized void beginRenewing() {
        if (!isRenewing) {
            isRenewing = true;
            timer.schedule(this::renew, session.renewEveryMs(), TimeUnit.MILLISECONDS);
        }
    }

    private void renew() {
        long nextMs = RETRY_MS;
        try {
            session.renew();
            Set<MessageQueue> held = session.queues();
            held.forEach(this::confirm);
            giveUpUnused(held);
            nextMs = session.renewEveryMs();
        } catch (IOException e) {
            report("cannot renew: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return;
        }
        if (!timer.isShutdown()) {
            timer.schedule(this::renew, nextMs, TimeUnit.MILLISECONDS);
        }
    }

    /** What was held at two renewals and is not consumed was locked too late, or its release was not answered. */
    private synchronized void giveUpUnused(Set<MessageQueue> held) throws IOException, InterruptedException {
        Set<MessageQueue> found = new HashSet<>(held);
        found.removeAll(processQueueTable.keySet());
        Map<MessageQueue, OffsetManagerHttp.Entry> released = new HashMap<>();
        found.stream().filter(unused::contains).forEach(queue -> released.put(queue, HttpOffsetStore.without(queue)));
        unused = found;
        session.release(released);
    }

    private void lost(MessageQueue queue) {
        ProcessQueue consumed = processQueueTable.get(queue);
        if (consumed != null) {
            consumed.setDropped(true);
        }
        if (!timer.isShutdown()) {
            timer.execute(() -> drop(queue, consumed));
        }
    }

    /** Only after all of it the queue can be taken again: what follows here is of the time before. */
    private void drop(MessageQueue queue, ProcessQueue consumed) {
        report(queue + " is lost");
        offsets.persist(queue);
        offsets.removeOffset(queue);
        session.forget(queue);
        if (consumed != null) {
            processQueueTable.remove(queue, consumed);
        }
        mQClientFactory.rebalanceImmediately();
    }

    @Override
    public boolean removeUnnecessaryMessageQueue(MessageQueue queue, ProcessQueue consumed) {
        finals.put(queue, offsets.entry(queue));
        try {
            return super.removeUnnecessaryMessageQueue(queue, consumed);
        } finally {
            finals.remove(queue);
        }
    }

    @Override
    public void unlock(MessageQueue queue, boolean isOneway) {
        release(Map.of(queue, finals.getOrDefault(queue, HttpOffsetStore.without(queue))));
    }

    private void release(Map<MessageQueue, OffsetManagerHttp.Entry> released) {
        try {
            session.release(released);
        } catch (IOException e) {
            report("cannot release " + released.keySet() + ": " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Called by a consumer that stops, after its last listener. */
    @Override
    public void unlockAll(boolean isOneway) {
        timer.shutdownNow();
        Set<MessageQueue> queues = processQueueTable.keySet();
        // What is stored now, the consumer does not send again without a token.
        offsets.persistAll(queues);
        Map<MessageQueue, OffsetManagerHttp.Entry> released = new HashMap<>();
        queues.forEach(queue -> released.put(queue, offsets.entry(queue)));
        release(released);
        try {
            session.close();
        } catch (IOException e) {
            report("cannot close the session, it ends by itself: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void report(String sentence) {
        System.out.println("LOCKS " + sentence.replaceAll("\\s+", " "));
    }
}
