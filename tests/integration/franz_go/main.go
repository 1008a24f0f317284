// A client of franz-go: it produces the lines of its input, or reads so many records and prints their values.
//
//	franz-go produce BOOTSTRAP TOPIC
//	franz-go consume|share BOOTSTRAP TOPIC GROUP COUNT
//
// What it reads is committed, or accepted, before it ends.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	log.SetFlags(0)
	what, bootstrap, topic := os.Args[1], os.Args[2], os.Args[3]
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	}
	if what == "produce" {
		produce(client(append(options, kgo.DefaultProduceTopic(topic))))
		return
	}
	group := os.Args[4]
	count, err := strconv.Atoi(os.Args[5])
	check(err)
	options = append(options, kgo.ConsumeTopics(topic))
	if what == "share" {
		read(client(append(options, kgo.ShareGroup(group))), count, (*kgo.Client).FlushAcks)
		return
	}
	options = append(options, kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	read(client(options), count, (*kgo.Client).CommitUncommittedOffsets)
}

func client(options []kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(options...)
	check(err)
	return made
}

func produce(client *kgo.Client) {
	defer client.Close()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		record := &kgo.Record{Value: []byte(lines.Text())}
		check(client.ProduceSync(context.Background(), record).FirstErr())
	}
	check(lines.Err())
}

func read(client *kgo.Client, count int, finish func(*kgo.Client, context.Context) error) {
	defer client.Close()
	ctx := context.Background()
	for seen := 0; seen < count; {
		fetches := client.PollFetches(ctx)
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Fatalf("%s-%d: %v", topic, partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) {
			fmt.Println(string(record.Value))
			record.Ack(kgo.AckAccept) // of a share group; else it does nothing
			seen++
		})
		check(finish(client, ctx))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
