import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * Computes which client gets which queues, as Java's clients do. A line of standard input is a case:
 * {@code {"strategy":"AVG","queues":[{"topic":..,"brokerName":..,"queueId":..}],"clients":[..],"rooms":[..]}}; that of
 * output is {@code SHARES} and, by client, the queues as {@code brokerName:queueId}. A room, for MACHINE_ROOM_NEARBY, is
 * what a name has before its first hyphen.
 */
public final class Allocations {
    private Allocations() {
    }

    public static void main(String[] args) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            Map<?, ?> test = RemotingSerializable.fromJson(line, Map.class);
            System.out.println("SHARES " + RemotingSerializable.toJson(shares(test), false));
        }
    }

    private static Map<String, List<String>> shares(Map<?, ?> test) {
        List<MessageQueue> queues = new ArrayList<>();
        for (Object each : (List<?>) test.get("queues")) {
            Map<?, ?> queue = (Map<?, ?>) each;
            queues.add(new MessageQueue((String) queue.get("topic"), (String) queue.get("brokerName"),
                ((Number) queue.get("queueId")).intValue()));
        }
        List<String> clients = strings(test.get("clients"));
        Collections.sort(queues);
        Collections.sort(clients);
        AllocateMessageQueueStrategy strategy = strategy((String) test.get("strategy"), strings(test.get("rooms")));
        Map<String, List<String>> shares = new TreeMap<>();
        for (String client : clients) {
            List<String> share = new ArrayList<>();
            for (MessageQueue queue : strategy.allocate("group", client, queues, clients)) {
                share.add(queue.getBrokerName() + ":" + queue.getQueueId());
            }
            shares.put(client, share);
        }
        return shares;
    }

    private static AllocateMessageQueueStrategy strategy(String name, List<String> rooms) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash();
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                byRoom.setConsumeridcs(new HashSet<>(rooms));
                return byRoom;
            default:
                return new AllocateMachineRoomNearby(strategy(name.replace("MACHINE_ROOM_NEARBY-", ""), rooms),
                    new AllocateMachineRoomNearby.MachineRoomResolver() {
                        @Override
                        public String brokerDeployIn(MessageQueue queue) {
                            return queue.getBrokerName().split("-")[0];
                        }

                        @Override
                        public String consumerDeployIn(String client) {
                            return client.split("-")[0];
                        }
                    });
        }
    }

    private static List<String> strings(Object list) {
        List<String> strings = new ArrayList<>();
        for (Object each : (List<?>) list) {
            strings.add((String) each);
        }
        return strings;
    }
}
