"""The command `sharegroup share-groups`, with the options, tables and messages of Kafka's kafka-share-groups.sh."""
