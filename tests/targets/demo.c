// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The demonstration: a small frame loop as in a game, for `make demo` and for trying things out.
 *
 *	demo [SECONDS]		until then, or until Ctrl-C
 *
 * 60 times a second the main thread goes through this (manual scopes in quotes, functions to hook
 * by name with ()):
 *
 *	"frame"
 *	    "update"            read_input()  "animate" > pose_skeleton()
 *	    step_physics()      "integrate"  "broadphase"  solve_contacts() > "relax" x 4
 *	    render_frame()      "cull"  sort_draw_keys()  "submit" > submit_draw_call() x 32
 *
 * "integrate" and "cull" are cut into jobs for three worker threads, which take them from a queue:
 *
 *	"job" > integrate_particles() or cull_particles()
 *
 * SCOPE("name") is all that a manual scope takes. The functions in HOOKABLE have nothing in them:
 * to see those, name them to `scopetrace record -p PID -f NAME`.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scope.h"

/* Kept as functions of their own, since an inlined function has no entry at which to hook it. */
#define HOOKABLE __attribute__((noinline, noclone))

enum {
	WORKERS = 3,
	PARTICLES = 2048,
	SLICE = 256, /* particles of one job */
	GRID = 32,   /* cells on a side */
	BONES = 48,
	RELAXATIONS = 4,
	DRAW_CALLS = 32,
	MAX_JOBS = PARTICLES / SLICE,
	FRAME_NS = 1000000000 / 60,
};

struct particle {
	float x, y, z; /* 0 <= each < 1 */
	float vx, vy, vz;
};

struct matrix {
	float cell[4][4];
};

struct world;

/* One slice of particles to work on. */
struct job {
	void (*run)(struct world *world, unsigned first, unsigned count);
	unsigned first;
	unsigned count;
};

struct job_queue {
	pthread_mutex_t lock;
	pthread_cond_t work;	/* there is a job, or the queue is closed */
	pthread_cond_t settled; /* nothing is queued and nothing runs */
	struct job jobs[MAX_JOBS];
	unsigned queued;
	unsigned running;
	uint64_t done;
	bool closed;
};

struct world {
	struct job_queue queue;
	struct particle particles[PARTICLES];
	uint16_t by_cell[PARTICLES]; /* indexes of particles, ordered by cell of the grid */
	uint64_t draw_keys[PARTICLES];
	struct matrix skeleton[BONES];
	float wind_x, wind_y;
	uint64_t random;
	uint64_t frames;
	uint64_t contacts;
	uint64_t drawn; /* stands in for the graphics card: a sum over all that was submitted */
};

struct worker {
	pthread_t thread;
	struct world *world;
	char name[16];
};

/* ---- the job queue ---- */

static void queue_open(struct job_queue *queue)
{
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->work, NULL);
	pthread_cond_init(&queue->settled, NULL);
}

static void queue_close(struct job_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->closed = true;
	pthread_cond_broadcast(&queue->work);
	pthread_mutex_unlock(&queue->lock);
}

/* Takes a job, waiting for one; false when the queue is closed. */
static bool queue_take(struct job_queue *queue, struct job *job)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->queued == 0 && !queue->closed)
		pthread_cond_wait(&queue->work, &queue->lock);
	bool taken = queue->queued > 0;
	if (taken) {
		*job = queue->jobs[--queue->queued];
		queue->running++;
	}
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

static void queue_finished(struct job_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->done++;
	if (--queue->running == 0 && queue->queued == 0)
		pthread_cond_signal(&queue->settled);
	pthread_mutex_unlock(&queue->lock);
}

/* Has the workers go over all particles, slice by slice, and waits for the last. */
static void run_on_workers(struct world *world,
			   void (*run)(struct world *world, unsigned first, unsigned count))
{
	struct job_queue *queue = &world->queue;
	pthread_mutex_lock(&queue->lock);
	for (unsigned first = 0; first < PARTICLES; first += SLICE)
		queue->jobs[queue->queued++] = (struct job){run, first, SLICE};
	pthread_cond_broadcast(&queue->work);
	while (queue->queued > 0 || queue->running > 0)
		pthread_cond_wait(&queue->settled, &queue->lock);
	pthread_mutex_unlock(&queue->lock);
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct job job;
	scope_thread_name(worker->name, strlen(worker->name));
	while (queue_take(&worker->world->queue, &job)) {
		SCOPE("job");
		job.run(worker->world, job.first, job.count);
		queue_finished(&worker->world->queue);
	}
	return NULL;
}

/* ---- update ---- */

static float random_unit(struct world *world)
{
	world->random ^= world->random << 13;
	world->random ^= world->random >> 7;
	world->random ^= world->random << 17;
	return (float)(world->random >> 40) / (float)(1 << 24);
}

HOOKABLE static void read_input(struct world *world)
{
	world->wind_x = 0.9f * world->wind_x + 0.1f * (random_unit(world) - 0.5f);
	world->wind_y = 0.9f * world->wind_y + 0.1f * (random_unit(world) - 0.5f);
}

static struct matrix multiply(const struct matrix *a, const struct matrix *b)
{
	struct matrix product = {0};
	for (int row = 0; row < 4; row++)
		for (int column = 0; column < 4; column++)
			for (int i = 0; i < 4; i++)
				product.cell[row][column] += a->cell[row][i] * b->cell[i][column];
	return product;
}

/* Swings from -1 to 1 and back, once a second. */
static float swing(uint64_t frame)
{
	float phase = (float)(frame % 60) / 30;
	return phase < 1 ? 2 * phase - 1 : 3 - 2 * phase;
}

/* Each bone turns a little against the one it hangs on. */
HOOKABLE static void pose_skeleton(struct world *world)
{
	struct matrix pose = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
	for (unsigned bone = 0; bone < BONES; bone++) {
		float t = 0.05f * swing(world->frames + bone); /* the tangent of half the angle */
		float c = (1 - t * t) / (1 + t * t), s = 2 * t / (1 + t * t);
		struct matrix joint = {
			{{c, -s, 0, 0.1f}, {s, c, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}};
		pose = multiply(&pose, &joint);
		world->skeleton[bone] = pose;
	}
}

static void animate(struct world *world)
{
	SCOPE("animate");
	pose_skeleton(world);
}

static void update(struct world *world)
{
	SCOPE("update");
	read_input(world);
	animate(world);
}

/* ---- physics ---- */

static float bounce(float position, float *velocity)
{
	if (position >= 0 && position < 1)
		return position;
	*velocity = -0.8f * *velocity;
	return position < 0 ? 0 : 0.9999f;
}

HOOKABLE static void integrate_particles(struct world *world, unsigned first, unsigned count)
{
	const float step = 1.0f / 60;
	for (unsigned i = first; i < first + count; i++) {
		struct particle *p = &world->particles[i];
		p->vx += step * world->wind_x;
		p->vy += step * world->wind_y;
		p->vz -= step * 0.5f;
		p->x = bounce(p->x + step * p->vx, &p->vx);
		p->y = bounce(p->y + step * p->vy, &p->vy);
		p->z = bounce(p->z + step * p->vz, &p->vz);
	}
}

static unsigned cell_of(const struct particle *p)
{
	return (unsigned)(p->y * GRID) * GRID + (unsigned)(p->x * GRID);
}

/* Orders the particles by cell (a counting sort), so that those which may touch are neighbours. */
static void broadphase(struct world *world)
{
	SCOPE("broadphase");
	uint16_t next[GRID * GRID + 1] = {0};
	for (unsigned i = 0; i < PARTICLES; i++)
		next[cell_of(&world->particles[i]) + 1]++;
	for (unsigned cell = 1; cell <= GRID * GRID; cell++)
		next[cell] = (uint16_t)(next[cell] + next[cell - 1]);
	for (unsigned i = 0; i < PARTICLES; i++)
		world->by_cell[next[cell_of(&world->particles[i])]++] = (uint16_t)i;
}

/* Turns two particles that are too near to each other apart; true if it had to. */
static bool push_apart(struct particle *a, struct particle *b)
{
	float dx = b->x - a->x, dy = b->y - a->y, dz = b->z - a->z;
	if (dx * dx + dy * dy + dz * dz > 0.01f * 0.01f)
		return false;
	a->vx -= dx, a->vy -= dy, a->vz -= dz;
	b->vx += dx, b->vy += dy, b->vz += dz;
	return true;
}

static uint64_t relax(struct world *world)
{
	SCOPE("relax");
	uint64_t contacts = 0;
	for (unsigned i = 0; i < PARTICLES; i++)
		for (unsigned j = i + 1; j < PARTICLES && j < i + 4; j++)
			contacts += push_apart(&world->particles[world->by_cell[i]],
					       &world->particles[world->by_cell[j]]);
	return contacts;
}

HOOKABLE static uint64_t solve_contacts(struct world *world)
{
	uint64_t contacts = 0;
	for (int i = 0; i < RELAXATIONS; i++)
		contacts += relax(world);
	return contacts;
}

HOOKABLE static void step_physics(struct world *world)
{
	{
		SCOPE("integrate");
		run_on_workers(world, integrate_particles);
	}
	broadphase(world);
	world->contacts += solve_contacts(world);
}

/* ---- render ---- */

/*
 * A key for each particle that can be seen: far ones first, near ones painted over them; else the
 * last.
 */
HOOKABLE static void cull_particles(struct world *world, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++) {
		const struct particle *p = &world->particles[i];
		float half_width = 0.25f + 0.25f * p->z;
		bool visible = p->x > 0.5f - half_width && p->x < 0.5f + half_width;
		uint64_t nearness = (uint64_t)((1 - p->z) * 1e6f);
		world->draw_keys[i] = visible ? nearness << 32 | i : UINT64_MAX;
	}
}

static int compare_keys(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

HOOKABLE static unsigned sort_draw_keys(struct world *world)
{
	unsigned visible = 0;
	qsort(world->draw_keys, PARTICLES, sizeof(world->draw_keys[0]), compare_keys);
	while (visible < PARTICLES && world->draw_keys[visible] != UINT64_MAX)
		visible++;
	return visible;
}

HOOKABLE static uint64_t submit_draw_call(const struct world *world, unsigned first, unsigned count)
{
	uint64_t sum = 0;
	for (unsigned i = first; i < first + count; i++)
		sum = (sum ^ world->draw_keys[i]) * 0x100000001b3;
	return sum;
}

static void submit(struct world *world, unsigned visible)
{
	SCOPE("submit");
	for (unsigned i = 0; i < DRAW_CALLS; i++) {
		unsigned first = visible * i / DRAW_CALLS, end = visible * (i + 1) / DRAW_CALLS;
		world->drawn += submit_draw_call(world, first, end - first);
	}
}

HOOKABLE static void render_frame(struct world *world)
{
	{
		SCOPE("cull");
		run_on_workers(world, cull_particles);
	}
	submit(world, sort_draw_keys(world));
	world->frames++;
}

/* ---- the frame loop ---- */

static void frame(struct world *world)
{
	SCOPE("frame");
	update(world);
	step_physics(world);
	render_frame(world);
}

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Sleeps until `deadline`; true if one of `signals` came. */
static bool sleep_until(int64_t deadline, const sigset_t *signals)
{
	int64_t left = deadline - now_ns();
	if (left < 0)
		left = 0;
	struct timespec timeout = {left / 1000000000, left % 1000000000};
	return sigtimedwait(signals, NULL, &timeout) > 0;
}

static void frame_loop(struct world *world, double seconds, const sigset_t *signals)
{
	int64_t start = now_ns();
	int64_t next = start;
	while (seconds == 0 || (double)(next - start) < seconds * 1e9) {
		frame(world);
		next += FRAME_NS;
		if (next < now_ns())
			next = now_ns(); /* late: frames are dropped, not hurried through */
		if (sleep_until(next, signals))
			break;
	}
}

static struct world *start_up(void)
{
	SCOPE_FUNCTION();
	struct world *world = calloc(1, sizeof(*world));
	if (!world)
		return NULL;
	queue_open(&world->queue);
	world->random = 88172645463325252;
	for (unsigned i = 0; i < PARTICLES; i++) {
		struct particle *p = &world->particles[i];
		p->x = random_unit(world), p->y = random_unit(world), p->z = random_unit(world);
		p->vx = random_unit(world) - 0.5f, p->vy = random_unit(world) - 0.5f;
	}
	return world;
}

static bool start_workers(struct world *world, struct worker *workers)
{
	for (int i = 0; i < WORKERS; i++) {
		workers[i].world = world;
		snprintf(workers[i].name, sizeof(workers[i].name), "worker %d", i + 1);
		if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]))
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	char *end = "";
	double seconds = argc > 1 ? strtod(argv[1], &end) : 0;
	if (argc > 2 || *end || !(seconds >= 0) || (argc == 2 && seconds == 0)) {
		fprintf(stderr, "usage: demo [SECONDS]\n");
		return 2;
	}
	/*
	 * Blocked in every thread, so that they are taken where the frame loop waits and nowhere
	 * else.
	 */
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);

	SCOPE_THREAD_NAME("main");
	struct world *world = start_up();
	struct worker workers[WORKERS];
	if (!world || !start_workers(world, workers)) {
		fprintf(stderr, "demo: out of memory or threads\n");
		return 1;
	}
	printf("demo: pid %d, %d particles, 1 + %d threads, 60 frames a second\n", getpid(),
	       PARTICLES, WORKERS);
	fflush(stdout);

	frame_loop(world, seconds, &signals);

	queue_close(&world->queue);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i].thread, NULL);
	printf("demo: %llu frames, %llu jobs done\n", (unsigned long long)world->frames,
	       (unsigned long long)world->queue.done);
	free(world);
	return 0;
}
