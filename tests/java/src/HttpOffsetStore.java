import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.consumer.RebalanceImpl;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Keeps the offsets of a clustering push consumer in an offset manager (docs/offsets.md) instead of in brokers, by
 * RocketMQ's own extension point; works with clients of 4.9 and 5.x:
 * <pre>
 * HttpOffsetStore.install(consumer, "offsets-1:9883;offsets-2:9883", token);    // before start()
 * </pre>
 *
 * <p>It writes behind: offsets are updated in memory, and each {@code persistConsumerOffsetInterval} those that have
 * changed are committed, 100 at most in a request. The timer of the client, which sends heartbeats too, waits a second
 * for that at most. What is not acknowledged is sent again; what a killed client had not sent yet is consumed again.
 *
 * <ul>
 * <li>Only where the manager has no offset, the consumer applies its ConsumeFromWhere: {@link #readOffset} returns -1.
 *     What cannot be determined is -2, and the consumer leaves the queue for this round.
 * <li>An offset that was reset at the manager takes effect: the next commit is refused, and the consumer drops the queue
 *     and takes it again, from there.
 * <li>Where the consumer itself goes back, as after OFFSET_ILLEGAL or a reset by mqadmin, it resets the queue at the
 *     manager. That needs the token of operators.
 * <li>Offsets of queues that it does not hold any more are not written.
 * </ul>
 */
public final class HttpOffsetStore implements OffsetStore {
    static final int ENTRIES_MAX = 100;
    private static final long WAIT_MS = 1000;
    private static final long ABSENT = -1;
    private static final long UNAVAILABLE = -2;

    private final DefaultMQPushConsumer consumer;
    private final OffsetManagerHttp manager;
    private final ExecutorService sender = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task, "offset-sender");
        thread.setDaemon(true);
        return thread;
    });
    // Guarded by this.
    private final Map<MessageQueue, Position> positions = new HashMap<>();
    private final Set<MessageQueue> due = new LinkedHashSet<>();
    private Future<?> sending;

    /** Where a consumer is in a queue that it holds. */
    private static final class Position {
        long offset;
        long resetEpoch;
        /** What the manager has, as far as it matters. */
        long saved;
        boolean isFrozen;
        boolean wentBack;

        Position(long offset, long resetEpoch) {
            this.offset = offset;
            this.resetEpoch = resetEpoch;
            saved = offset;
        }
    }

    private HttpOffsetStore(DefaultMQPushConsumer consumer, OffsetManagerHttp manager) {
        this.consumer = consumer;
        this.manager = manager;
    }

    /** Lets a consumer that has not started yet keep its offsets at managers; {@code token} is blank if they need none. */
    @SuppressWarnings("deprecation")
    public static HttpOffsetStore install(DefaultMQPushConsumer consumer, String addresses, String token) {
        HttpOffsetStore store = new HttpOffsetStore(consumer,
            new OffsetManagerHttp(addresses, consumer.getConsumerGroup(), token));
        consumer.setOffsetStore(store);
        return store;
    }

    @Override
    public void load() {
        // Offsets are read when their queues are taken.
    }

    /** Ignored for a queue whose offset was not read since it was taken: a late update of one that was dropped. */
    @Override
    public synchronized void updateOffset(MessageQueue queue, long offset, boolean increaseOnly) {
        Position position = positions.get(queue);
        if (position != null && !position.isFrozen && (offset > position.offset || !increaseOnly)) {
            // Of an orderly consumer that was paused only what others have stored is higher than its own.
            position.wentBack |= offset < position.offset;
            position.offset = offset;
        }
    }

    /** Called by clients from 5.2 on after OFFSET_ILLEGAL. */
    public synchronized void updateAndFreezeOffset(MessageQueue queue, long offset) {
        updateOffset(queue, offset, false);
        Position position = positions.get(queue);
        if (position != null) {
            position.isFrozen = true;
        }
    }

    @Override
    public long readOffset(MessageQueue queue, ReadOffsetType type) {
        long known = inMemory(queue);
        if (type == ReadOffsetType.READ_FROM_MEMORY || type == ReadOffsetType.MEMORY_FIRST_THEN_STORE && known >= 0) {
            return known;
        }
        try {
            OffsetManagerHttp.Result result = manager.read(queue);
            if (result.status.equals("unavailable")) {
                report(queue + " is unavailable: " + result.reason);
                return UNAVAILABLE;
            }
            synchronized (this) {
                positions.put(queue, new Position(result.offset, result.resetEpoch));
            }
            return result.offset;
        } catch (IOException e) {
            report("cannot read " + queue + ": " + e);
            return UNAVAILABLE;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return UNAVAILABLE;
        }
    }

    private synchronized long inMemory(MessageQueue queue) {
        Position position = positions.get(queue);
        return position == null ? ABSENT : position.offset;
    }

    /** Commits what has changed of these queues, and forgets all others. */
    @Override
    public void persistAll(Set<MessageQueue> queues) {
        if (queues == null || queues.isEmpty()) {
            return;
        }
        synchronized (this) {
            positions.keySet().retainAll(queues);
        }
        send(queues);
    }

    @Override
    public void persist(MessageQueue queue) {
        send(Set.of(queue));
    }

    @Override
    public synchronized void removeOffset(MessageQueue queue) {
        positions.remove(queue);
    }

    @Override
    public synchronized Map<MessageQueue, Long> cloneOffsetTable(String topic) {
        Map<MessageQueue, Long> cloned = new HashMap<>();
        positions.forEach((queue, position) -> {
            if (position.offset >= 0 && (topic == null || topic.isBlank() || topic.equals(queue.getTopic()))) {
                cloned.put(queue, position.offset);
            }
        });
        return cloned;
    }

    /** Stores an offset of any queue before it returns. */
    @Override
    public void updateConsumeOffsetToBroker(MessageQueue queue, long offset, boolean isOneway)
        throws MQClientException, InterruptedException {
        try {
            long resetEpoch = manager.read(queue).resetEpoch;
            OffsetManagerHttp.Entry entry = new OffsetManagerHttp.Entry(queue, offset, resetEpoch);
            OffsetManagerHttp.Result result = manager.commit(consumer.buildMQClientId(), List.of(entry)).get(0);
            if (!result.status.equals("ok")) {
                throw new MQClientException(queue + " is " + result.status + ": " + result.reason, null);
            }
        } catch (IOException e) {
            throw new MQClientException("cannot commit " + queue, e);
        }
    }

    /** Waits for a second at most: the sender goes on after that. */
    private void send(Set<MessageQueue> queues) {
        Future<?> sent;
        synchronized (this) {
            queues.stream().filter(this::isChanged).forEach(due::add);
            if (due.isEmpty()) {
                return;
            }
            if (sending == null) {
                sending = sender.submit(this::sendDue);
            }
            sent = sending;
        }
        try {
            sent.get(WAIT_MS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            report("the offset manager has not answered within " + WAIT_MS + " ms, its answer is waited for");
        } catch (ExecutionException e) {
            report("offsets were not sent: " + e.getCause());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean isChanged(MessageQueue queue) {
        Position position = positions.get(queue);
        return position != null && position.offset >= 0 && position.offset != position.saved;
    }

    private void sendDue() {
        try {
            for (List<MessageQueue> taken = take(); !taken.isEmpty(); taken = take()) {
                commit(goBack(changed(taken)));
            }
        } catch (IOException e) {
            // They have changed still: the next call sends them again.
            report("cannot commit: " + e);
            giveUp();
        } catch (InterruptedException e) {
            giveUp();
            Thread.currentThread().interrupt();
        }
    }

    private synchronized void giveUp() {
        due.clear();
        sending = null;
    }

    /** Returns the next queues; with none the sender has ended, and what becomes due later is sent by another one. */
    private synchronized List<MessageQueue> take() {
        List<MessageQueue> taken = due.stream().limit(ENTRIES_MAX).toList();
        taken.forEach(due::remove);
        if (taken.isEmpty()) {
            sending = null;
        }
        return taken;
    }

    private synchronized List<OffsetManagerHttp.Entry> changed(List<MessageQueue> queues) {
        return queues.stream().filter(this::isChanged).map(queue -> {
            Position position = positions.get(queue);
            return new OffsetManagerHttp.Entry(queue, position.offset, position.resetEpoch);
        }).toList();
    }

    /** Resets the queues in which the consumer went back, and returns the entries of all others. */
    private List<OffsetManagerHttp.Entry> goBack(List<OffsetManagerHttp.Entry> entries)
        throws IOException, InterruptedException {
        List<OffsetManagerHttp.Entry> others = new ArrayList<>();
        for (OffsetManagerHttp.Entry entry : entries) {
            if (wentBack(entry.queue)) {
                reset(entry);
            } else {
                others.add(entry);
            }
        }
        return others;
    }

    private synchronized boolean wentBack(MessageQueue queue) {
        Position position = positions.get(queue);
        return position != null && position.wentBack;
    }

    private void reset(OffsetManagerHttp.Entry entry) throws IOException, InterruptedException {
        OffsetManagerHttp.Result result = manager.reset(consumer.buildMQClientId(), entry.queue, entry.offset);
        if (!result.status.equals("ok")) {
            report(entry.queue + " cannot be reset to " + entry.offset + ", it is " + result.status + ": " + result.reason);
            return;
        }
        long resetEpoch = manager.read(entry.queue).resetEpoch;
        synchronized (this) {
            Position position = positions.get(entry.queue);
            if (position != null) {
                position.wentBack = false;
                position.resetEpoch = resetEpoch;
                position.saved = entry.offset;
            }
        }
    }

    private void commit(List<OffsetManagerHttp.Entry> entries) throws IOException, InterruptedException {
        if (entries.isEmpty()) {
            return;
        }
        List<OffsetManagerHttp.Result> results = manager.commit(consumer.buildMQClientId(), entries);
        List<MessageQueue> lost = new ArrayList<>();
        synchronized (this) {
            for (int i = 0; i < results.size(); i++) {
                if (isLost(entries.get(i), results.get(i))) {
                    lost.add(entries.get(i).queue);
                    positions.remove(entries.get(i).queue);
                }
            }
        }
        lost.forEach(this::takeAgain);
    }

    /** Notes what became of a commit, and returns whether the position of the consumer does not count any more. */
    private boolean isLost(OffsetManagerHttp.Entry entry, OffsetManagerHttp.Result result) {
        Position position = positions.get(entry.queue);
        if (position == null || position.resetEpoch != entry.resetEpoch) {
            return false;
        }
        switch (result.status) {
            case "ok":
                position.saved = entry.offset;
                return false;
            case "stale":
                // Stored by another client that has consumed further, or in another reset epoch, or deleted.
                position.saved = entry.offset;
                return result.resetEpoch != entry.resetEpoch;
            case "refused":
                report(entry.queue + " at " + entry.offset + " is refused: " + result.reason);
                position.saved = entry.offset;
                return false;
            default:
                return false;
        }
    }

    /** Lets the consumer drop a queue and take it again, so that it reads its offset. */
    @SuppressWarnings("deprecation")
    private void takeAgain(MessageQueue queue) {
        RebalanceImpl rebalance = consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl();
        rebalance.removeProcessQueue(queue);
        rebalance.getmQClientFactory().rebalanceImmediately();
    }

    private static void report(String sentence) {
        System.out.println("OFFSETS " + sentence.replaceAll("\\s+", " "));
    }
}
