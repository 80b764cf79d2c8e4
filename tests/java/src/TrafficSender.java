import java.nio.charset.StandardCharsets;
import java.util.concurrent.Phaser;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends a message every {@code --interval-ms} until it is ended or has sent {@code --count}. The id of a message is
 * NAME:0, NAME:1 and so on; its body is the id, its key and its number among those of the key, split by tabs.
 * <ul>
 * <li>{@code --keys n}: the messages have n keys in turn, and go to the queue that the hash of the key selects;
 * <li>{@code --queue id --broker name}: they go to this queue, whether the route shows it or not;
 * <li>{@code --kind}: {@code sync}, as without it; {@code async}; {@code oneway}: nobody acknowledges, and what the
 *     client took counts as acknowledged by broker - at -1; {@code transaction}: all are committed, every tenth only
 *     when a broker checks back, or with {@code --undecided-ms} all at the first check after that time;
 * <li>{@code --delay-level n}: they are delivered later;
 * <li>{@code --timeout-ms}, {@code --retries}, {@code --poll-ms}: the client's own settings.
 * </ul>
 */
final class TrafficSender extends TrafficClient {
    private static final int CHECKED_BACK = 10;

    private final String name;
    private final Options options;
    private final TrafficRecords records;
    private final String kind;
    private final DefaultMQProducer producer;
    /** Has a party for each message whose callback is still to come. */
    private final Phaser pending = new Phaser(1);
    private final Thread thread = new Thread(this::sendAll);
    private volatile boolean goesOn = true;

    TrafficSender(String name, Options options, TrafficRecords records) {
        this.name = name;
        this.options = options;
        this.records = records;
        kind = options.text("kind", "sync");
        producer = producer(options.text("group", name));
        separate(producer, name, options);
        producer.setSendMsgTimeout(options.number("timeout-ms", 3000));
        producer.setRetryTimesWhenSendFailed(options.number("retries", 2));
        producer.setRetryTimesWhenSendAsyncFailed(options.number("retries", 2));
    }

    private DefaultMQProducer producer(String group) {
        if (!kind.equals("transaction")) {
            return new DefaultMQProducer(group);
        }
        int undecidedMs = options.number("undecided-ms", 0);
        TransactionMQProducer transactional = new TransactionMQProducer(group);
        transactional.setTransactionListener(new TransactionListener() {
            private int number;

            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return undecidedMs > 0 || number++ % CHECKED_BACK == 0
                    ? LocalTransactionState.UNKNOW : LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return System.currentTimeMillis() - message.getBornTimestamp() < undecidedMs
                    ? LocalTransactionState.UNKNOW : LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        return transactional;
    }

    @Override
    String start() throws Exception {
        producer.start();
        awaitRoute();
        thread.start();
        return producer.buildMQClientId();
    }

    private void awaitRoute() throws MQClientException {
        for (int tries = 1; ; tries++) {
            try {
                producer.fetchPublishMessageQueues(options.text("topic"));
                return;
            } catch (MQClientException e) {
                if (tries == TRIES) {
                    throw e;
                }
            }
        }
    }

    @Override
    void finish() throws Exception {
        thread.join();
        pending.arriveAndAwaitAdvance();
        producer.shutdown();
    }

    @Override
    void stop() throws Exception {
        goesOn = false;
        finish();
    }

    @Override
    void kill() throws Exception {
        goesOn = false;
        sever(producer);
    }

    private void sendAll() {
        int keys = options.number("keys", 0);
        int count = options.number("count", Integer.MAX_VALUE);
        long intervalNanos = options.number("interval-ms", 10) * 1_000_000L;
        long next = System.nanoTime();
        try {
            for (int i = 0; goesOn && i < count; i++) {
                String key = keys > 0 ? name + "/" + i % keys : "-";
                send(key, String.join("\t", name + ":" + i, key, String.valueOf(keys > 0 ? i / keys : i)));
                // A slow broker is not made up for by a burst.
                next = Math.max(next + intervalNanos, System.nanoTime());
                Thread.sleep(Math.max(0, (next - System.nanoTime()) / 1_000_000L));
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void send(String key, String body) throws InterruptedException {
        try {
            switch (kind) {
                case "async":
                    sendAsync(message(body), body);
                    break;
                case "oneway":
                    producer.sendOneway(message(body));
                    records.taken(name, body);
                    break;
                case "transaction":
                    sent(body, producer.sendMessageInTransaction(message(body), null));
                    break;
                default:
                    sent(body, sentSync(key, message(body)));
            }
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            failed(body, e);
        }
    }

    private void sendAsync(Message message, String body) throws Exception {
        pending.register();
        try {
            producer.send(message, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent(body, result);
                    pending.arriveAndDeregister();
                }

                @Override
                public void onException(Throwable e) {
                    failed(body, e);
                    pending.arriveAndDeregister();
                }
            });
        } catch (Exception e) {
            pending.arriveAndDeregister();
            throw e;
        }
    }

    private void sent(String body, SendResult result) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            records.acknowledged(name, body, result);
        } else {
            records.failed(name, body, result.getSendStatus().name(), "");
        }
    }

    private void failed(String body, Throwable e) {
        if (e instanceof MQBrokerException) {
            MQBrokerException refused = (MQBrokerException) e;
            records.failed(name, body, String.valueOf(refused.getResponseCode()), refused.getErrorMessage());
        } else if (e instanceof MQClientException) {
            MQClientException refused = (MQClientException) e;
            records.failed(name, body, String.valueOf(refused.getResponseCode()), refused.getErrorMessage());
        } else {
            records.failed(name, body, e.getClass().getSimpleName(), e.getMessage());
        }
    }

    private Message message(String body) {
        Message message = new Message(options.text("topic"), body.getBytes(StandardCharsets.UTF_8));
        message.setKeys(body.substring(0, body.indexOf('\t')));
        // A transactional message with any level, 0 too, is refused.
        if (options.number("delay-level", 0) > 0) {
            message.setDelayTimeLevel(options.number("delay-level", 0));
        }
        return message;
    }

    private SendResult sentSync(String key, Message message) throws Exception {
        int queue = options.number("queue", -1);
        if (queue >= 0) {
            return producer.send(message, new MessageQueue(message.getTopic(), options.text("broker"), queue));
        }
        return key.equals("-") ? producer.send(message) : producer.send(message, new SelectMessageQueueByHash(), key);
    }
}
