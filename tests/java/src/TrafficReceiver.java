import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * A consumer of {@code --group}, of one {@code --kind}:
 * <ul>
 * <li>{@code push}, {@code orderly}, {@code broadcast}: a push consumer with that listener or message model;
 * <li>{@code pop}: a push consumer whose queues the broker assigns. It pops what the broker's request mode of topic and
 *     group (401) says so for, and pulls otherwise. From 5.0 on;
 * <li>{@code lite}: a lite pull consumer that commits by itself what it has polled;
 * <li>{@code assign}: the same, which is assigned all queues that the topic has when it starts, and with {@code --follows}
 *     true those that it has later.
 * </ul>
 * {@code --from} names where it begins without a stored offset, {@code --work-ms} how long it needs for a message,
 * {@code --invisible-ms} how long a popped message is its own, {@code --persist-ms} how often it commits,
 * {@code --timestamp} (yyyyMMddHHmmss) where TIMESTAMP begins, {@code --offset-managers} where a push consumer keeps its
 * offsets instead of in brokers. What an orderly listener answers: {@code --result}, {@code --auto-commit};
 * {@code --fails} is a message that it never consumes, {@code --max-reconsume-times} how often it is tried again.
 */
final class TrafficReceiver extends TrafficClient {
    private static final int POLL_MS = 200;

    private final String name;
    private final Options options;
    private final TrafficRecords records;
    private final String group;
    private DefaultMQPushConsumer push;
    private DefaultLitePullConsumer lite;
    private Thread poller;
    private volatile boolean goesOn = true;
    private boolean killed;

    TrafficReceiver(String name, Options options, TrafficRecords records) {
        this.name = name;
        this.options = options;
        this.records = records;
        group = options.text("group");
    }

    @Override
    String start() throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                String kind = options.text("kind");
                return kind.equals("lite") || kind.equals("assign") ? startLite(kind) : startPush(kind);
            } catch (IllegalStateException e) {
                if (tries == TRIES || !(e.getCause() instanceof RemotingException)) {
                    throw e;
                }
                shutdownClient();
            }
        }
    }

    private String startPush(String kind) throws Exception {
        push = new DefaultMQPushConsumer(group);
        separate(push, name, options);
        push.setConsumeFromWhere(from());
        push.setConsumeTimestamp(options.text("timestamp", push.getConsumeTimestamp()));
        int threads = options.number("consume-threads", push.getConsumeThreadMin());
        push.setConsumeThreadMin(threads);
        push.setConsumeThreadMax(Math.max(threads, options.number("consume-threads", push.getConsumeThreadMax())));
        if (kind.equals("broadcast")) {
            setMessageModel(push, "BROADCASTING");
        }
        if (kind.equals("pop")) {
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(push, false);
            DefaultMQPushConsumer.class.getMethod("setPopInvisibleTime", long.class)
                .invoke(push, (long) options.number("invisible-ms", 60_000));
        }
        String managers = options.text("offset-managers", "");
        if (!managers.isEmpty()) {
            HttpOffsetStore.install(push, managers, options.text("offset-token", ""));
        }
        push.subscribe(options.text("topic"), "*");
        if (kind.equals("orderly")) {
            push.setMaxReconsumeTimes(options.number("max-reconsume-times", push.getMaxReconsumeTimes()));
            push.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                context.setAutoCommit(Boolean.parseBoolean(options.text("auto-commit", "true")));
                return consumeAll(messages) ? result(messages) : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            push.registerMessageListener((MessageListenerConcurrently) (messages, context) -> consumeAll(messages)
                ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        push.start();
        return push.buildMQClientId();
    }

    private String startLite(String kind) throws Exception {
        lite = new DefaultLitePullConsumer(group);
        separate(lite, name, options);
        lite.setConsumeFromWhere(from());
        lite.setAutoCommitIntervalMillis(options.number("persist-ms", 5000));
        if (kind.equals("lite")) {
            lite.subscribe(options.text("topic"), "*");
        }
        lite.start();
        if (kind.equals("assign")) {
            assignAll();
        }
        boolean follows = Boolean.parseBoolean(options.text("follows", "false"));
        poller = new Thread(() -> {
            while (goesOn) {
                consumeAll(lite.poll(POLL_MS));
                if (follows) {
                    assignAll();
                }
            }
        });
        poller.start();
        return lite.buildMQClientId();
    }

    private void assignAll() {
        try {
            lite.assign(lite.fetchMessageQueues(options.text("topic")));
        } catch (MQClientException e) {
            throw new IllegalStateException(e);
        }
    }

    /** What an orderly listener answers for messages that it has consumed. */
    private ConsumeOrderlyStatus result(List<MessageExt> messages) {
        String failing = options.text("fails", "") + "\t";
        boolean fails = messages.stream().anyMatch(message ->
            new String(message.getBody(), StandardCharsets.UTF_8).startsWith(failing));
        return fails ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
            : ConsumeOrderlyStatus.valueOf(options.text("result", "SUCCESS"));
    }

    private ConsumeFromWhere from() {
        return ConsumeFromWhere.valueOf("CONSUME_FROM_" + options.text("from", "LAST_OFFSET"));
    }

    /** The type of message models has moved to another package between 4.9 and 5.1. */
    private static void setMessageModel(DefaultMQPushConsumer consumer, String model) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                for (Object value : method.getParameterTypes()[0].getEnumConstants()) {
                    if (value.toString().equals(model)) {
                        method.invoke(consumer, value);
                    }
                }
            }
        }
    }

    private boolean consumeAll(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            if (!consume(message)) {
                return false;
            }
        }
        return true;
    }

    private boolean consume(MessageExt message) {
        try {
            Thread.sleep(options.number("work-ms", 0));
        } catch (InterruptedException e) {
            return false;
        }
        synchronized (this) {
            if (!killed) {
                records.consumed(group, name, message);
            }
            return !killed;
        }
    }

    @Override
    void finish() {
        throw new UnsupportedOperationException("a consumer has no end");
    }

    @Override
    void stop() throws Exception {
        goesOn = false;
        if (poller != null) {
            poller.join();
        }
        shutdownClient();
    }

    private void shutdownClient() {
        if (push != null) {
            push.shutdown();
        } else {
            lite.shutdown();
        }
    }

    @Override
    @SuppressWarnings("deprecation")
    void kill() throws Exception {
        synchronized (this) {
            killed = true;
        }
        goesOn = false;
        sever(push != null ? push : (ClientConfig) lite);
        if (push != null) {
            push.getDefaultMQPushConsumerImpl().getConsumeMessageService().shutdown(0);
        }
    }
}
