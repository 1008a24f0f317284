// A share consumer in Java: Kafka's own client, connected to a gateway. It needs a JDK of version 17 or newer.
//
//     java -cp "$(python -m sharegroup.spark.jars --list tools | tr , :)" examples/ShareClient.java \
//         127.0.0.1:9192 billing orders 100
//
// It accepts 100 records of the topic "orders" as a member of the group "billing".

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class ShareClient {
    public static void main(String[] arguments) {
        var settings = Map.<String, Object>of(
                "bootstrap.servers", arguments[0],
                "group.id", arguments[1],
                "share.acknowledgement.mode", "explicit");
        int remaining = Integer.parseInt(arguments[3]);
        try (var consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(arguments[2]));
            while (remaining > 0) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.printf("partition %d, offset %d, delivery %d: %s%n",
                            record.partition(), record.offset(), record.deliveryCount().orElseThrow(), record.value());
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    remaining--;
                }
                consumer.commitSync();
            }
        }
    }
}
