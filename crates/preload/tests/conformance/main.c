#include "cases.h"

static int failures, all;
static char **left_out;

void expect(int holds, const char *what, const char *file, int line)
{
	if (!holds) {
		failures++;
		printf("%s:%d: not so: %s\n", file, line, what);
	}
}

void expect_code(int got, int code, const char *what, const char *file, int line)
{
	int now = errno;

	if (now != UNTOUCHED) {
		failures++;
		printf("%s:%d: %s sets errno to %d\n", file, line, what, now);
	}
	if (got != code) {
		failures++;
		printf("%s:%d: %s is %d, not %d\n", file, line, what, got, code);
	}
}

void run(const char *name, void (*run)(void))
{
	for (char **out = left_out; *out; out++)
		if (strcmp(*out, name) == 0)
			return;
	failures = 0;
	run();
	printf("%s %s\n", failures ? "FAIL" : "ok", name);
	fflush(stdout);
	all += failures;
}

pthread_t started(void *(*work)(void *), void *argument)
{
	pthread_t thread;
	CODE(pthread_create(&thread, NULL, work, argument), 0);
	return thread;
}

void *elsewhere(void *(*work)(void *), void *argument)
{
	void *result = NULL;
	CODE(pthread_join(started(work, argument), &result), 0);
	return result;
}

const struct timespec past = { 1, 0 };
const struct timespec malformed = { 1, 1000000000 };
const struct timespec negative = { 1, -1 };

struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec at;
	clock_gettime(clock, &at);
	at.tv_nsec += ms * 1000000;
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

int has_passed(clockid_t clock, struct timespec at)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec > at.tv_sec || (now.tv_sec == at.tv_sec && now.tv_nsec >= at.tv_nsec);
}

void *named(const char *old, void *function)
{
	void *found = dlsym(RTLD_DEFAULT, old);
	return found ? found : function;
}

void let_run(void)
{
	struct timespec moment = { 0, 1000000 };
	nanosleep(&moment, NULL);
}

void *page(int flags)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
	EXPECT(page != MAP_FAILED);
	return page;
}

void unmap(void *page)
{
	munmap(page, 4096);
}

int exit_status(pid_t child)
{
	int status = 0;
	EXPECT(waitpid(child, &status, 0) == child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

/* The arguments are cases to leave out. */
int main(int argc, char **argv)
{
	left_out = argv + (argc > 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	early_and_late_cases();
	mutex_cases();
	cond_cases();
	cancel_cases();
	rwlock_cases();
	c11_cases();
	fork_cases();
	return all != 0;
}
