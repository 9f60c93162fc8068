/* Uses locks as its argument says: mostly in ways in which they can deadlock, but do not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t begun, ended;

static __attribute__((noinline)) void take_a_then_b(void)
{
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&b);
	pthread_mutex_unlock(&b);
	pthread_mutex_unlock(&a);
}

static __attribute__((noinline)) void take_b_then_a(void)
{
	pthread_mutex_lock(&b);
	pthread_mutex_lock(&a);
	pthread_mutex_unlock(&a);
	pthread_mutex_unlock(&b);
}

/* Runs it in a thread of its own, to its end. */
static void alone(void (*part)(void))
{
	pthread_t thread;

	pthread_create(&thread, NULL, (void *(*)(void *))(void *)part, NULL);
	pthread_join(thread, NULL);
}

static void both_orders(void)
{
	alone(take_a_then_b);
	alone(take_b_then_a);
}

static void back_off(void)
{
	struct timespec past = { 1, 0 };

	pthread_mutex_lock(&b);
	if (pthread_mutex_trylock(&a) == 0)
		pthread_mutex_unlock(&a);
	if (pthread_mutex_timedlock(&a, &past) == 0)
		pthread_mutex_unlock(&a);
	pthread_mutex_unlock(&b);
}

static void try(void)
{
	alone(take_a_then_b);
	alone(back_off);
}

static void read_a_then_b(void)
{
	pthread_mutex_lock(&a);
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	pthread_mutex_unlock(&a);
}

static void read_b_then_a(void)
{
	pthread_rwlock_rdlock(&rwlock);
	pthread_mutex_lock(&a);
	pthread_mutex_unlock(&a);
	pthread_rwlock_unlock(&rwlock);
}

static void readers(void)
{
	alone(read_a_then_b);
	alone(read_b_then_a);
}

static void recursive(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t lock;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock, &attributes);
	pthread_mutex_lock(&lock);
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	pthread_mutex_unlock(&a);
	pthread_mutex_unlock(&lock);
	pthread_mutex_destroy(&lock);
}

static void reuse(void)
{
	alone(take_a_then_b);
	a = b = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	alone(take_b_then_a);
	pthread_mutex_destroy(&a);
	pthread_mutex_init(&a, NULL);
	alone(take_a_then_b);
}

static void lock_twice(void)
{
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&a);
}

static void write_what_it_reads(void)
{
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_wrlock(&rwlock);
}

static void lock_and_wait(void)
{
	pthread_mutex_lock(&a);
	sem_post(&begun);
	sem_wait(&ended);
}

static void stranger(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, (void *(*)(void *))(void *)lock_and_wait, NULL);
	sem_wait(&begun);
	pthread_mutex_unlock(&a);
	sem_post(&ended);
	pthread_join(thread, NULL);
}

static void destroy(void)
{
	pthread_mutex_lock(&a);
	pthread_mutex_destroy(&a);
}

static void destroy_c11(void)
{
	static mtx_t mutex;

	mtx_init(&mutex, mtx_plain);
	mtx_lock(&mutex);
	mtx_destroy(&mutex);
}

static void lock_and_leave(void)
{
	pthread_mutex_lock(&a);
}

static void leave(void)
{
	alone(lock_and_leave);
}

/* It wants a back while it has b, which a thread wants that has a. Nobody signals. */
static void wait_with_both(void)
{
	static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&a);
	pthread_mutex_lock(&b);
	pthread_cond_wait(&never, &a);
}

static void *take_when_told(void *unused)
{
	take_a_then_b();
	sem_post(&begun);
	sem_wait(&ended);
	take_a_then_b();
	return unused;
}

static void nest_many(void)
{
	static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER, inner[17000];

	for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
		pthread_mutex_init(&inner[i], NULL);
		pthread_mutex_lock(&outer);
		pthread_mutex_lock(&inner[i]);
		pthread_mutex_unlock(&inner[i]);
		pthread_mutex_unlock(&outer);
	}
}

/* The table of orders is full in between: what a thread knew before it tells anew. */
static void full_table(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, take_when_told, NULL);
	sem_wait(&begun);
	alone(nest_many);
	sem_post(&ended);
	pthread_join(thread, NULL);
	alone(take_b_then_a);
}

/* More locks nest than the table has room for, but hardly one at a time. */
static void short_lives(void)
{
	static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;

	alone(take_a_then_b);
	for (int i = 0; i < 17000; i++) {
		pthread_mutex_t *inner = malloc(sizeof(*inner));

		pthread_mutex_init(inner, NULL);
		pthread_mutex_lock(&outer);
		pthread_mutex_lock(inner);
		pthread_mutex_unlock(inner);
		pthread_mutex_unlock(&outer);
		pthread_mutex_destroy(inner);
		free(inner);
	}
	alone(take_b_then_a);
}

static __attribute__((noinline)) void take_a_alone(void)
{
	pthread_mutex_lock(&a);
	pthread_mutex_unlock(&a);
}

/* The threads are one after the other. */
static void after_another(void)
{
	alone(take_a_alone);
	both_orders();
}

static pthread_key_t key;

/* In every round of destructors. */
static void take_a_at_end(void *rounds)
{
	take_a_alone();
	if (rounds != (void *)1)
		pthread_setspecific(key, (char *)rounds - 1);
}

static void set_key(void)
{
	pthread_setspecific(key, (void *)4); /* PTHREAD_DESTRUCTOR_ITERATIONS */
}

/* More threads than are watched at a time, whose first and last locks are in destructors. */
static void many_ends(void)
{
	take_a_alone();
	pthread_key_create(&key, take_a_at_end);
	for (int i = 0; i < 4200; i++)
		alone(set_key);
	both_orders();
}

static void close_stderr(void)
{
	fclose(stderr);
}

static void closed(void)
{
	atexit(close_stderr);
	both_orders();
}

static int is_slow;

/* Reports look names up by it: the next that does says so, and takes its time. */
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data)
{
	int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

	*(void **)&next = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	if (__atomic_exchange_n(&is_slow, 0, __ATOMIC_RELAXED)) {
		sem_post(&begun);
		usleep(100000);
	}
	return next(visit, data);
}

/* A child comes while another thread makes a report, and makes one itself. */
static void forks(void)
{
	pthread_t thread;
	int status;

	alone(take_a_then_b);
	__atomic_store_n(&is_slow, 1, __ATOMIC_RELAXED);
	pthread_create(&thread, NULL, (void *(*)(void *))(void *)take_b_then_a, NULL);
	sem_wait(&begun);
	if (fork() == 0) {
		alarm(60);
		destroy_c11();
		exit(0);
	}
	wait(&status);
	pthread_join(thread, NULL);
	if (!WIFEXITED(status))
		exit(1);
}

static void lock_a(void)
{
	sem_post(&ended);
	pthread_mutex_lock(&a);
}

static void unlock_a(void)
{
	pthread_mutex_unlock(&a);
}

static void take_b_when_told(void)
{
	pthread_mutex_lock(&a);
	sem_post(&begun);
	sem_wait(&ended);
	pthread_mutex_lock(&b);
	pthread_mutex_unlock(&b);
	pthread_mutex_unlock(&a);
}

/* A fork waits for a thread that has yet to take a lock in an order that is new. */
static void waits_to_fork(void)
{
	pthread_t thread;

	alarm(60);
	pthread_atfork(lock_a, unlock_a, unlock_a);
	pthread_create(&thread, NULL, (void *(*)(void *))(void *)take_b_when_told, NULL);
	sem_wait(&begun);
	if (fork() == 0)
		_exit(0);
	wait(NULL);
	pthread_join(thread, NULL);
}

static void fork_and_wait(int signal)
{
	pid_t child = fork();

	(void)signal;
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
}

/* A signal handler forks, and interrupts a fork in which locks are held already. */
static void forks_in_forks(void)
{
	struct itimerval often = { { 0, 1500 }, { 0, 1500 } };
	struct sigaction action = { .sa_handler = fork_and_wait, .sa_flags = SA_RESTART };

	take_a_then_b();
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 1000; i++)
		fork_and_wait(0);
	memset(&often, 0, sizeof(often));
	setitimer(ITIMER_REAL, &often, NULL);
}

static void quick(void)
{
	both_orders();
	quick_exit(0);
}

static void fail(void)
{
	both_orders();
	exit(3);
}

/* Less memory is left than the orders take. */
static void no_memory(void)
{
	long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	if (!statm || fscanf(statm, "%ld", &pages) != 1)
		exit(1);
	fclose(statm);
	struct rlimit limit = { pages * sysconf(_SC_PAGESIZE) + (2 << 20), RLIM_INFINITY };
	setrlimit(RLIMIT_AS, &limit);
	take_a_then_b();
	take_b_then_a();
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "both_orders", both_orders },
	{ "try", try },
	{ "readers", readers },
	{ "recursive", recursive },
	{ "reuse", reuse },
	{ "lock_twice", lock_twice },
	{ "write_what_it_reads", write_what_it_reads },
	{ "stranger", stranger },
	{ "destroy", destroy },
	{ "destroy_c11", destroy_c11 },
	{ "leave", leave },
	{ "wait_with_both", wait_with_both },
	{ "full_table", full_table },
	{ "short_lives", short_lives },
	{ "after_another", after_another },
	{ "many_ends", many_ends },
	{ "closed", closed },
	{ "forks", forks },
	{ "waits_to_fork", waits_to_fork },
	{ "forks_in_forks", forks_in_forks },
	{ "quick", quick },
	{ "fail", fail },
	{ "no_memory", no_memory },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			puts("done");
			return 0;
		}
	}
	return 2;
}
