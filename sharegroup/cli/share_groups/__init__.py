"""The command `sharegroup share-groups`, with the flags, tables and messages of Kafka's kafka-share-groups.sh."""
