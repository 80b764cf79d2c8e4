import java.lang.reflect.Field;
import java.util.Map;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.impl.MQClientManager;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;

/** One producer or consumer of a Traffic. */
abstract class TrafficClient {
    /** How often a client asks for its route at its start: the first requests of a cold JVM can outlast the client's 3 s. */
    static final int TRIES = 5;

    /** Starts it and returns its client id. */
    abstract String start() throws Exception;

    /** Waits until it has done all that it was started for, and stops it. */
    abstract void finish() throws Exception;

    abstract void stop() throws Exception;

    abstract void kill() throws Exception;

    /** Gives it connections, route polls and heartbeats of its own, and a client id that no other process has. */
    static void separate(ClientConfig client, String name, Options options) {
        client.setNamesrvAddr(options.text("namesrv"));
        client.setInstanceName(name + "-" + ProcessHandle.current().pid());
        client.setPollNameServerInterval(options.number("poll-ms", 1000));
        // A broker names a consumer to its group only after a heartbeat: without it no queue of a new topic is taken.
        client.setHeartbeatBrokerInterval(options.number("heartbeat-ms", 1000));
        client.setPersistConsumerOffsetInterval(options.number("persist-ms", 5000));
    }

    /** Closes the connections of a client without a word to any broker, and ends its timers. */
    static void sever(ClientConfig client) throws Exception {
        MQClientInstance instance = MQClientManager.getInstance().getOrCreateMQClientInstance(client);
        instance.getMQClientAPIImpl().shutdown();
        // An instance with consumers refuses to end.
        table(instance, "consumerTable").clear();
        table(instance, "producerTable").clear();
        instance.shutdown();
    }

    private static Map<?, ?> table(MQClientInstance instance, String name) throws Exception {
        Field field = MQClientInstance.class.getDeclaredField(name);
        field.setAccessible(true);
        return (Map<?, ?>) field.get(instance);
    }
}
