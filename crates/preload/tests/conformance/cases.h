/* The cases, and what they are made of. A case says what POSIX says; it runs with the C
 * library's locks, and with ours. None depends on how long anything takes. */
#ifndef CASES_H
#define CASES_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Counts what does not hold, and says where. */
void expect(int holds, const char *what, const char *file, int line);
#define EXPECT(holds) expect((holds), #holds, __FILE__, __LINE__)
/* The code that a function returns; errno it leaves as it is, done or refused. */
#define CODE(call, code) expect_code((errno = UNTOUCHED, (call)), (code), #call, __FILE__, __LINE__)
enum { UNTOUCHED = 4321 };
void expect_code(int got, int code, const char *what, const char *file, int line);

/* Runs in another thread, and returns what that returned. */
void *elsewhere(void *(*work)(void *), void *argument);
pthread_t started(void *(*work)(void *), void *argument);

/* So many milliseconds from now on a clock. */
struct timespec in_ms(clockid_t clock, long ms);
/* Whether the clock has passed it. */
int has_passed(clockid_t clock, struct timespec at);
/* A moment long ago, and two that are none. */
extern const struct timespec past, malformed, negative;

/* Lets others run for a moment. */
void let_run(void);
/* A function by a name that older programs were linked against, where there is that. */
#define NAMED(old, function) named(old, (void *)(function))
void *named(const char *old, void *function);
/* A page that others may map; and one that is gone when it is done with. */
void *page(int flags);
void unmap(void *page);

/* Waits for a child, and returns its exit status. */
int exit_status(pid_t child);

void mutex_cases(void);
void cond_cases(void);
void cancel_cases(void);
void rwlock_cases(void);
void fork_cases(void);
void c11_cases(void);
void early_and_late_cases(void);

/* Runs a case, and says how it went. */
void run(const char *name, void (*run)(void));
#define RUN(name) run(#name, name)

#endif
