import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * A push consumer that prints {@code GOT unixMillis body} for every message it receives, until it is stopped.
 */
public final class Consumer {
    private Consumer() {
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(options.text("group"));
        consumer.setNamesrvAddr(options.text("namesrv"));
        consumer.setPollNameServerInterval(options.number("poll-ms", 1000));
        // A broker names a consumer to its group only after a heartbeat: without it no queue of a new topic is taken.
        consumer.setHeartbeatBrokerInterval(options.number("heartbeat-ms", options.number("poll-ms", 1000)));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(options.text("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> System.out.println("GOT " + System.currentTimeMillis() + " "
                + new String(message.getBody(), StandardCharsets.UTF_8)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("READY " + System.currentTimeMillis());
        Thread.currentThread().join();
    }
}
