#include "cases.h"
#include <threads.h>

static mtx_t mutex;
static cnd_t cond;
static int ready;

static int try_it(void *unused)
{
	(void)unused;
	return mtx_trylock(&mutex);
}

static int time_out(void *unused)
{
	struct timespec at;

	(void)unused;
	timespec_get(&at, TIME_UTC);
	return mtx_timedlock(&mutex, &at);
}

static int malformed_time(void *unused)
{
	(void)unused;
	return mtx_timedlock(&mutex, &malformed);
}

static int told(int (*work)(void *))
{
	thrd_t thread;
	int result = -1;

	CODE(thrd_create(&thread, work, NULL), thrd_success);
	CODE(thrd_join(thread, &result), thrd_success);
	return result;
}

static void c11_mutexes(void)
{
	static const int kinds[] = { mtx_plain, mtx_timed, mtx_plain | mtx_recursive, mtx_timed | mtx_recursive };
	int i;

	for (i = 0; i < 4; i++) {
		int recursive = (kinds[i] & mtx_recursive) != 0;

		CODE(mtx_init(&mutex, kinds[i]), thrd_success);
		CODE(mtx_lock(&mutex), thrd_success);
		CODE(told(try_it), thrd_busy);
		CODE(told(time_out), thrd_timedout);
		CODE(told(malformed_time), thrd_error);
		if (recursive) {
			CODE(mtx_lock(&mutex), thrd_success);
			CODE(mtx_timedlock(&mutex, &past), thrd_success);
			CODE(mtx_unlock(&mutex), thrd_success);
			CODE(mtx_unlock(&mutex), thrd_success);
		}
		CODE(mtx_trylock(&mutex), recursive ? thrd_success : thrd_busy);
		if (recursive)
			CODE(mtx_unlock(&mutex), thrd_success);
		CODE(mtx_unlock(&mutex), thrd_success);
		CODE(mtx_trylock(&mutex), thrd_success);
		CODE(mtx_unlock(&mutex), thrd_success);
		if (recursive)
			CODE(mtx_unlock(&mutex), thrd_error);
		mtx_destroy(&mutex);
	}
}

static int make_ready(void *unused)
{
	(void)unused;
	CODE(mtx_lock(&mutex), thrd_success);
	ready = 1;
	CODE(cnd_signal(&cond), thrd_success);
	CODE(cnd_broadcast(&cond), thrd_success);
	CODE(mtx_unlock(&mutex), thrd_success);
	return 0;
}

static void c11_conditions(void)
{
	struct timespec at;
	thrd_t thread;

	CODE(mtx_init(&mutex, mtx_timed), thrd_success);
	CODE(cnd_init(&cond), thrd_success);
	CODE(mtx_lock(&mutex), thrd_success);
	timespec_get(&at, TIME_UTC);
	CODE(cnd_timedwait(&cond, &mutex, &at), thrd_timedout);
	CODE(cnd_timedwait(&cond, &mutex, &malformed), thrd_error);
	CODE(cnd_signal(&cond), thrd_success);
	CODE(cnd_broadcast(&cond), thrd_success);
	CODE(thrd_create(&thread, make_ready, NULL), thrd_success);
	while (!ready)
		CODE(cnd_wait(&cond, &mutex), thrd_success);
	CODE(mtx_unlock(&mutex), thrd_success);
	CODE(thrd_join(thread, NULL), thrd_success);
	CODE(mtx_lock(&mutex), thrd_success);
	ready = 0;
	at.tv_sec += 1000000;
	CODE(thrd_create(&thread, make_ready, NULL), thrd_success);
	while (!ready)
		CODE(cnd_timedwait(&cond, &mutex, &at), thrd_success);
	CODE(mtx_unlock(&mutex), thrd_success);
	CODE(thrd_join(thread, NULL), thrd_success);
	mtx_destroy(&mutex);
	CODE(mtx_init(&mutex, mtx_plain | mtx_recursive), thrd_success);
	CODE(cnd_wait(&cond, &mutex), thrd_error);
	CODE(cnd_timedwait(&cond, &mutex, &past), thrd_error);
	mtx_destroy(&mutex);
	cnd_destroy(&cond);
}

void c11_cases(void)
{
	RUN(c11_mutexes);
	RUN(c11_conditions);
}
