// SPDX-License-Identifier: GPL-2.0-or-later

// Goroutines whose stacks are copied to other addresses while they grow, with traced calls on them, and which move from
// thread to thread: main.descend calls itself until the stack has grown several times, and yields on its way; at the
// bottom it calls main.bottom. Four run at a time, so that stacks are used again by others. How long the longest of the
// calls took goes to stderr, as `longest NANOSECONDS`.
//
//	gostacks [--wait-go] [GOROUTINES]	100 by default
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const depth, together = 200, 4

var descendEntries, descendReturns, bottomEntries, bottomReturns int64
var sink int64

//go:noinline
func bottom(i int64) int64 {
	sink = i // first: the kernel refuses a probe on a locked instruction
	atomic.AddInt64(&bottomEntries, 1)
	atomic.AddInt64(&bottomReturns, 1)
	return i + 1
}

//go:noinline
func descend(levels int64) int64 {
	var room [64]int64

	atomic.AddInt64(&descendEntries, 1)
	room[levels%64] = levels
	if levels%32 == 0 {
		runtime.Gosched()
	}
	if levels > 0 {
		room[(levels+1)%64] += descend(levels - 1)
	} else {
		room[1] = bottom(levels)
	}
	atomic.AddInt64(&descendReturns, 1)
	return room[(levels+1)%64]
}

func run(all *sync.WaitGroup, wrong, longest *int64) {
	defer all.Done()
	start := time.Now()
	if descend(depth) != 1 {
		atomic.AddInt64(wrong, 1)
	}
	took := int64(time.Since(start))
	for {
		most := atomic.LoadInt64(longest)
		if took <= most || atomic.CompareAndSwapInt64(longest, most, took) {
			return
		}
	}
}

func main() {
	arguments := os.Args[1:]
	if len(arguments) > 0 && arguments[0] == "--wait-go" {
		fmt.Println("pid", os.Getpid())
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			os.Exit(2)
		}
		arguments = arguments[1:]
	}
	goroutines := 100
	if len(arguments) > 0 {
		goroutines, _ = strconv.Atoi(arguments[0])
	}
	var wrong, longest int64
	for i := 0; i < goroutines; i += together {
		var all sync.WaitGroup
		for j := 0; j < together; j++ {
			all.Add(1)
			go run(&all, &wrong, &longest)
		}
		all.Wait()
	}
	fmt.Fprintf(os.Stderr, "longest %d\n", longest)
	fmt.Printf("truth descend=%d/%d bottom=%d/%d wrong=%d\n", descendEntries, descendReturns, bottomEntries,
		bottomReturns, wrong)
	if wrong != 0 {
		os.Exit(1)
	}
}
