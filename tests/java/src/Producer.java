import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Sends messages one by one, the bodies PREFIX-0, PREFIX-1 and so on, and prints one line for each:
 * {@code SENT unixMillis body brokerName} or {@code FAILED unixMillis body reason}. Retries are the client's own.
 */
public final class Producer {
    private Producer() {
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        DefaultMQProducer producer = new DefaultMQProducer(options.text("group"));
        producer.setNamesrvAddr(options.text("namesrv"));
        producer.setPollNameServerInterval(options.number("poll-ms", 1000));
        producer.setSendMsgTimeout(options.number("timeout-ms", 15_000));
        producer.start();
        getAnswered(producer, options.text("topic"));
        System.out.println("READY " + System.currentTimeMillis());
        int count = options.number("count", Integer.MAX_VALUE);
        for (int i = 0; i < count; i++) {
            send(producer, options.text("topic"), options.text("prefix") + "-" + i);
            Thread.sleep(options.number("interval-ms", 10));
        }
        System.out.println("DONE " + System.currentTimeMillis());
        producer.shutdown();
        System.exit(0);
    }

    /** The first question of a cold JVM can outlast the client's 3 s on a busy machine, which is no failed sending. */
    private static void getAnswered(DefaultMQProducer producer, String topic) {
        for (int attempt = 0; attempt < 10; attempt++) {
            try {
                producer.fetchPublishMessageQueues(topic);
                return;
            } catch (MQClientException e) {
                if (!(e.getCause() instanceof RemotingException)) {
                    return;
                }
            }
        }
    }

    private static void send(DefaultMQProducer producer, String topic, String body) throws InterruptedException {
        try {
            SendResult result = producer.send(new Message(topic, body.getBytes(StandardCharsets.UTF_8)));
            boolean stored = result.getSendStatus() == SendStatus.SEND_OK;
            String outcome = stored ? result.getMessageQueue().getBrokerName() : result.getSendStatus().name();
            report(stored ? "SENT" : "FAILED", body, outcome);
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            report("FAILED", body, e.toString().replaceAll("\\s+", " "));
        }
    }

    private static void report(String what, String body, String detail) {
        System.out.println(what + " " + System.currentTimeMillis() + " " + body + " " + detail);
    }
}
