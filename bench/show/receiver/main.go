// Command receiver is the OpenTelemetry Collector's own receiver of OTLP on loopback, for one request of profiles:
// it prints "ready", then by type of sample the sum of the values as JSON, and ends.
//
//	receiver 127.0.0.1:PORT
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: receiver 127.0.0.1:PORT")
		os.Exit(2)
	}
	totals, err := receive(context.Background(), os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(totals)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "receiver:", err)
		os.Exit(1)
	}
}

// receive starts the receiver, and returns the totals of the first request.
func receive(ctx context.Context, endpoint string) (map[string]int64, error) {
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	http := map[string]any{"endpoint": endpoint}
	given := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": http}})
	if err := given.Unmarshal(config); err != nil {
		return nil, err
	}
	received := make(chan map[string]int64, 1)
	consumer, err := xconsumer.NewProfiles(func(_ context.Context, profiles pprofile.Profiles) error {
		received <- sums(profiles)
		return nil
	})
	if err != nil {
		return nil, err
	}
	settings := receivertest.NewNopSettings(factory.Type())
	receiver, err := factory.(xreceiver.Factory).CreateProfiles(ctx, settings, config, consumer)
	if err != nil {
		return nil, err
	}
	if err := receiver.Start(ctx, componenttest.NewNopHost()); err != nil {
		return nil, err
	}
	fmt.Println("ready")
	totals := <-received
	return totals, receiver.Shutdown(ctx)
}

// sums adds up the values of all samples, by the name of their type.
func sums(profiles pprofile.Profiles) map[string]int64 {
	texts := profiles.Dictionary().StringTable()
	sums := map[string]int64{}
	for _, resource := range profiles.ResourceProfiles().All() {
		for _, scope := range resource.ScopeProfiles().All() {
			for _, profile := range scope.Profiles().All() {
				name := texts.At(int(profile.SampleType().TypeStrindex()))
				for _, sample := range profile.Samples().All() {
					for _, value := range sample.Values().All() {
						sums[name] += value
					}
				}
			}
		}
	}
	return sums
}
