#include "cases.h"

/* Locks in constructors, in destructors of threads' data and of the program, in the
 * allocator; and what is not replaced beside them. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static int constructed, destroyed;

/* The allocator, as a program brings its own: it locks. What the locks call must not
 * come here. */
static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
static __thread int locking;
static int allocated_in_a_lock;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);

/* Before constructors have run, glibc before 2.34 allocates when a function is looked up. */
static void lock_heap(void)
{
	if (locking++ == 0)
		pthread_mutex_lock(&heap);
	else if (constructed)
		__atomic_add_fetch(&allocated_in_a_lock, 1, __ATOMIC_RELAXED);
}

static void unlock_heap(void)
{
	if (--locking == 0)
		pthread_mutex_unlock(&heap);
}

void *malloc(size_t size)
{
	lock_heap();
	void *memory = __libc_malloc(size);
	unlock_heap();
	return memory;
}

void *calloc(size_t count, size_t size)
{
	lock_heap();
	void *memory = __libc_calloc(count, size);
	unlock_heap();
	return memory;
}

void *realloc(void *memory, size_t size)
{
	lock_heap();
	memory = __libc_realloc(memory, size);
	unlock_heap();
	return memory;
}

void free(void *memory)
{
	lock_heap();
	__libc_free(memory);
	unlock_heap();
}

static void at_exit(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void construct(void)
{
	pthread_mutex_lock(&mutex);
	constructed = 1;
	pthread_mutex_unlock(&mutex);
	atexit(at_exit);
}

__attribute__((destructor)) static void destroy(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void destroy_value(void *value)
{
	CODE(pthread_mutex_lock(&mutex), 0);
	destroyed++;
	CODE(pthread_mutex_unlock(&mutex), 0);
	if ((long)value > 1) /* again, when other keys' have run */
		CODE(pthread_setspecific(key, (void *)((long)value - 1)), 0);
}

static void *set_value(void *unused)
{
	(void)unused;
	CODE(pthread_setspecific(key, (void *)3L), 0);
	CODE(pthread_mutex_lock(&mutex), 0);
	CODE(pthread_mutex_unlock(&mutex), 0);
	return NULL;
}

static void in_destructors(void)
{
	int i;

	EXPECT(constructed);
	for (i = 0; i < 30; i++) /* the program has no key yet */
		CODE(pthread_setspecific(i, &i), EINVAL);
	CODE(pthread_key_create(&key, destroy_value), 0);
	for (i = 0; i < 10; i++)
		elsewhere(set_value, NULL);
	EXPECT(destroyed == 30);
	CODE(pthread_key_delete(key), 0);
}

/* What a thread holds as it ends is its own, to be released by a destructor of its data. */
static pthread_key_t held_key;
static pthread_mutex_t held = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t held_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t meeting;

static void release_held(void *unused)
{
	(void)unused;
	CODE(pthread_mutex_lock(&held), 0);
	CODE(pthread_mutex_unlock(&held), 0);
	CODE(pthread_mutex_unlock(&held), 0);
	CODE(pthread_rwlock_unlock(&held_rwlock), 0);
}

static void *lock_first(void *unused)
{
	(void)unused;
	CODE(pthread_mutex_lock(&mutex), 0);
	CODE(pthread_mutex_unlock(&mutex), 0);
	pthread_barrier_wait(&meeting);
	pthread_barrier_wait(&meeting);
	return NULL;
}

static void *end_holding(void *first)
{
	CODE(pthread_mutex_lock(&held), 0);
	CODE(pthread_rwlock_wrlock(&held_rwlock), 0);
	pthread_barrier_wait(&meeting);
	CODE(pthread_join(*(pthread_t *)first, NULL), 0);
	CODE(pthread_setspecific(held_key, &held), 0);
	return NULL;
}

static void held_until_a_destructor(void)
{
	pthread_t first;

	CODE(pthread_key_create(&held_key, release_held), 0);
	CODE(pthread_barrier_init(&meeting, NULL, 2), 0);
	first = started(lock_first, NULL);
	pthread_barrier_wait(&meeting);
	elsewhere(end_holding, &first);
	CODE(pthread_mutex_trylock(&held), 0);
	CODE(pthread_mutex_unlock(&held), 0);
	CODE(pthread_rwlock_trywrlock(&held_rwlock), 0);
	CODE(pthread_rwlock_unlock(&held_rwlock), 0);
	CODE(pthread_barrier_destroy(&meeting), 0);
	CODE(pthread_key_delete(held_key), 0);
}

/* Every function, with the allocator watching. */
static void *wait_and_time_out(void *unused)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
	struct timespec at = in_ms(CLOCK_REALTIME, 1);

	(void)unused;
	locking = 1; /* what is allocated from here on is counted */
	pthread_mutex_lock(&mutex);
	pthread_cond_timedwait(&cond, &mutex, &at);
	pthread_mutex_timedlock(&mutex, &at);
	pthread_mutex_unlock(&mutex);
	pthread_rwlock_wrlock(&rwlock);
	pthread_rwlock_timedrdlock(&rwlock, &at);
	pthread_rwlock_unlock(&rwlock);
	locking = 0;
	return NULL;
}

static void in_the_allocator(void)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	int i;

	elsewhere(wait_and_time_out, NULL);
	for (i = 0; i < THREADS; i++)
		threads[i] = started(wait_and_time_out, NULL);
	for (i = 0; i < THREADS; i++) {
		void *memory = malloc(100 + i);
		pthread_join(threads[i], NULL);
		free(memory);
	}
	EXPECT(allocated_in_a_lock == 0);
}

static pthread_spinlock_t spinlock;
static pthread_barrier_t barrier;
static int count;

static void *spin(void *unused)
{
	int i;

	(void)unused;
	pthread_barrier_wait(&barrier);
	for (i = 0; i < 100; i++) {
		CODE(pthread_spin_lock(&spinlock), 0);
		count++;
		CODE(pthread_spin_unlock(&spinlock), 0);
	}
	return NULL;
}

static void what_is_not_replaced(void)
{
	pthread_t other;

	CODE(pthread_spin_init(&spinlock, 0), 0);
	CODE(pthread_barrier_init(&barrier, NULL, 2), 0);
	other = started(spin, NULL);
	spin(NULL);
	pthread_join(other, NULL);
	EXPECT(count == 200);
}

void early_and_late_cases(void)
{
	RUN(in_destructors);
	RUN(held_until_a_destructor);
	RUN(in_the_allocator);
	RUN(what_is_not_replaced);
}
