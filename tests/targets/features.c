// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every macro of scope.h, a known number of times: `features COUNT`. The main thread runs COUNT
 * frames; each has a scope with an argument and a flow, a hot scope with an argument, counters, an
 * instant, and sends a request that a second thread finishes. Prints "truth frames=N".
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "scope.h"

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned long sent;
	unsigned long done;
	unsigned long count;
};

/* Finishes the requests, and names the flow that ties its scope to the one that sent it. */
static void *serve(void *argument)
{
	struct queue *queue = argument;

	SCOPE_THREAD_NAME("server");
	pthread_mutex_lock(&queue->lock);
	while (queue->done < queue->count) {
		while (queue->done == queue->sent)
			pthread_cond_wait(&queue->changed, &queue->lock);
		SCOPE("serve");
		SCOPE_FLOW(queue->done + 1);
		SCOPE_ASYNC_END("request", queue->done);
		queue->done++;
		pthread_cond_signal(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

static void send_request(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	SCOPE_ASYNC_BEGIN("request", queue->sent);
	queue->sent++;
	pthread_cond_signal(&queue->changed);
	while (queue->done < queue->sent)
		pthread_cond_wait(&queue->changed, &queue->lock);
	pthread_mutex_unlock(&queue->lock);
}

static void hot(unsigned long i)
{
	SCOPE_HOT("hot");
	SCOPE_ARGUMENT("inside hot", i * 2);
}

static void frame(struct queue *queue, unsigned long i)
{
	char name[] = "dynamic";
	scope_token part;

	SCOPE_FRAME("main loop");
	SCOPE_FUNCTION();
	SCOPE_ARGUMENT("i", i);
	SCOPE_FLOW(i + 1);
	hot(i);
	SCOPE_BEGIN(part, "a part with a name that takes more than one record");
	SCOPE_ARGUMENT("minus", -(long)i);
	SCOPE_END(part);
	{
		SCOPE_DYNAMIC(name, sizeof(name) - 1);
		SCOPE_INSTANT("sent");
		send_request(queue);
	}
	SCOPE_ARGUMENT("after", 7); /* again of the function's own scope */
	SCOPE_COUNTER("integer", i);
	SCOPE_COUNTER("double", (double)i / 4);
}

int main(int argc, char **argv)
{
	struct queue queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};
	pthread_t server;

	if (argc != 2)
		return 2;
	queue.count = strtoul(argv[1], NULL, 10);
	SCOPE_THREAD_NAME("main thread");
	if (pthread_create(&server, NULL, serve, &queue) != 0)
		return 1;
	for (unsigned long i = 0; i < queue.count; i++)
		frame(&queue, i);
	SCOPE_FRAME("main loop");
	SCOPE_ARGUMENT("of nothing", 1);
	SCOPE_FLOW(99);
	SCOPE_ASYNC_BEGIN("never ended", &queue);
	pthread_join(server, NULL);
	printf("truth frames=%lu\n", queue.count);
	return 0;
}
