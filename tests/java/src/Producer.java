import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

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
