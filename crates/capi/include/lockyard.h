/* Made from crates/capi/src by `cargo xtask header`. */

/*
 * lockyard: sleeping locks that spin while the owner runs and sleep when it does not.
 *
 * Initialising. Zero bytes are an unlocked lock: a LOCKYARD_..._INITIALIZER, memory from
 * calloc and a static without an initialiser are ready for use, and so is what an _init
 * function has set. A lock must not be moved or copied while anybody uses it, and is for
 * the threads of one process. No pointer may be null unless its function
 * says so.
 *
 * Results. Functions return 0, or a number of errno.h; errno means nothing after them.
 * Signals do not interrupt them, and they are no cancellation points, but for one: the
 * process's first use of a lockyard_percpu_rwlock_t reads a file, and no thread may be
 * cancelled there.
 *
 * Deadlines. A struct timespec is a moment of CLOCK_MONOTONIC (clock_gettime), not a
 * duration. One of which tv_nsec is not in [0, 999999999] gives EINVAL, also where the
 * lock is free. What can be taken at once is taken even when the deadline has passed.
 *
 * Misuse. Who takes what it holds already as its owner or writer is told so by EDEADLK,
 * who releases what it does not hold by EPERM, and the lock is as before. Of readers a
 * lock knows only how many there are: a thread that reads and wants to write waits for
 * itself for ever. What cannot be told so ends the process with a message on standard
 * error: 2^24 readers of one rwlock; a deadlock through several priority-inheriting mutexes
 * that the kernel has noticed; no memory for the records of more threads, for the queues of
 * the futex, which the first wait maps, or for the counters of lockyard_percpu_rwlock_t, which
 * the first in use maps, and each 4096th after it. No function unwinds. A thread that ends while
 * it holds a lock leaves it locked; its number may later name another thread, which then passes
 * for the owner or writer, and is told so by EDEADLK, and may release the lock.
 *
 * Forks and signals. In a fork's child the forking thread holds what it held (but for
 * lockyard_pimutex_t); what other threads held stays locked for ever. A signal handler
 * must not use any of these functions.
 *
 * The process. One that forbids itself the system call membarrier after it has started, by
 * seccomp, stops at a contended lock. Any lock may read the processor's time-stamp counter:
 * on x86, one that forbids itself that, by prctl(PR_SET_TSC, PR_TSC_SIGSEGV) or by strict
 * seccomp, which does so, too, may be ended there by SIGSEGV. The library stays loaded.
 */

#ifndef LOCKYARD_H
#define LOCKYARD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct timespec; /* as in time.h, which strict C99 keeps from declaring it */

/*
 * A mutual-exclusion lock.
 *
 * A thread that finds it held spins while the owner is on a CPU, and sleeps when the
 * owner is not. Running threads overtake sleeping ones for up to 4 ms; then the first
 * sleeper is given the lock.
 */
typedef struct lockyard_mutex_t {
    uint64_t opaque[2];
} lockyard_mutex_t;

#define LOCKYARD_MUTEX_INITIALIZER { { 0 } }

/*
 * Makes an unlocked mutex. Returns 0.
 */
int lockyard_mutex_init(lockyard_mutex_t *mutex);

/*
 * Ends the use of a mutex. There is nothing to give back: it only says whether it was
 * right. No other thread may use it meanwhile.
 *
 * Returns 0, or EBUSY when it is held.
 */
int lockyard_mutex_destroy(lockyard_mutex_t *mutex);

/*
 * Takes the mutex, waiting as long as it takes.
 *
 * Returns 0, or EDEADLK when the calling thread holds it already.
 */
int lockyard_mutex_lock(lockyard_mutex_t *mutex);

/*
 * Takes the mutex if it is free.
 *
 * Returns 0, or EBUSY when anybody holds it, the calling thread included.
 */
int lockyard_mutex_trylock(lockyard_mutex_t *mutex);

/*
 * Takes the mutex, waiting until the deadline at the latest.
 *
 * Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
 * thread holds it already.
 */
int lockyard_mutex_timedlock(lockyard_mutex_t *mutex, const struct timespec *deadline);

/*
 * Releases the mutex. Once another thread can take it, nothing of it is touched any
 * more: that thread may free it.
 *
 * Returns 0, or EPERM when the calling thread does not hold it.
 */
int lockyard_mutex_unlock(lockyard_mutex_t *mutex);

/*
 * A condition variable for mutexes of the type lockyard_mutex_t.
 *
 * Signalled waiters move to the mutex's queue asleep, and wake when it is theirs to
 * take. There are no spurious wake-ups, but the condition may have changed again: wait
 * in a loop.
 */
typedef struct lockyard_cond_t {
    uint32_t opaque[2];
} lockyard_cond_t;

#define LOCKYARD_COND_INITIALIZER { { 0 } }

/*
 * Makes a condition variable that nobody waits for. Returns 0.
 */
int lockyard_cond_init(lockyard_cond_t *cond);

/*
 * Ends the use of a condition variable. There is nothing to give back. Every wait must
 * have returned before: it is not enough, as it is with POSIX's, that all waiters have
 * been signalled. Returns 0.
 */
int lockyard_cond_destroy(lockyard_cond_t *cond);

/*
 * Releases the mutex, waits to be signalled, and takes the mutex again.
 *
 * Returns 0, or EPERM when the calling thread does not hold the mutex.
 */
int lockyard_cond_wait(lockyard_cond_t *cond, lockyard_mutex_t *mutex);

/*
 * Releases the mutex, waits to be signalled or until the deadline, and takes the mutex
 * again, however long that takes.
 *
 * Returns 0, ETIMEDOUT (with the mutex held), EINVAL for a malformed deadline, or EPERM
 * when the calling thread does not hold the mutex.
 */
int lockyard_cond_timedwait(lockyard_cond_t *cond,
                            lockyard_mutex_t *mutex,
                            const struct timespec *deadline);

/*
 * Lets the thread that has waited longest go on, if any waits. Returns 0.
 */
int lockyard_cond_signal(lockyard_cond_t *cond);

/*
 * Lets all threads that wait go on, one after the other. Returns 0.
 */
int lockyard_cond_broadcast(lockyard_cond_t *cond);

/*
 * A mutual-exclusion lock whose owner runs at the priority of the most urgent real-time
 * thread that waits for it.
 *
 * Among threads that are scheduled fairly it is as fast as lockyard_mutex_t, and waits
 * as that does. A fork's child must not use one that the forking thread held.
 */
typedef struct lockyard_pimutex_t {
    uint64_t opaque[3];
} lockyard_pimutex_t;

#define LOCKYARD_PIMUTEX_INITIALIZER { { 0 } }

/*
 * Does now what the calling thread's first lock would do, some microseconds of work. For a
 * real-time thread, before its first deadline, and again when its policy has changed.
 * Returns 0.
 */
int lockyard_prepare_thread(void);

/*
 * Makes an unlocked mutex. Returns 0.
 */
int lockyard_pimutex_init(lockyard_pimutex_t *mutex);

/*
 * Ends the use of a mutex. There is nothing to give back: it only says whether it was
 * right. No other thread may use it meanwhile.
 *
 * Returns 0, or EBUSY when it is held.
 */
int lockyard_pimutex_destroy(lockyard_pimutex_t *mutex);

/*
 * Takes the mutex, waiting as long as it takes.
 *
 * Returns 0, or EDEADLK when the calling thread holds it already. Where the owner waits, by
 * other such mutexes, for one that the caller holds, it ends the process and says so.
 */
int lockyard_pimutex_lock(lockyard_pimutex_t *mutex);

/*
 * Takes the mutex if it is free.
 *
 * Returns 0, or EBUSY when anybody holds it, the calling thread included.
 */
int lockyard_pimutex_trylock(lockyard_pimutex_t *mutex);

/*
 * Takes the mutex, waiting until the deadline at the latest.
 *
 * Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
 * thread holds it already.
 */
int lockyard_pimutex_timedlock(lockyard_pimutex_t *mutex, const struct timespec *deadline);

/*
 * Releases the mutex. Once another thread can take it, nothing of it is touched any
 * more: that thread may free it.
 *
 * Returns 0, or EPERM when the calling thread does not hold it.
 */
int lockyard_pimutex_unlock(lockyard_pimutex_t *mutex);

/*
 * A condition variable for mutexes of the type lockyard_pimutex_t, which wakes the
 * waiter of the highest real-time priority, and of equals the one that has waited
 * longest.
 *
 * A waiter may wake without a signal: wait in a loop.
 */
typedef struct lockyard_picond_t {
    uint32_t opaque[2];
} lockyard_picond_t;

#define LOCKYARD_PICOND_INITIALIZER { { 0 } }

/*
 * Makes a condition variable that nobody waits for. Returns 0.
 */
int lockyard_picond_init(lockyard_picond_t *cond);

/*
 * Ends the use of a condition variable. There is nothing to give back. Every wait must
 * have returned before: it is not enough, as it is with POSIX's, that all waiters have
 * been signalled. Returns 0.
 */
int lockyard_picond_destroy(lockyard_picond_t *cond);

/*
 * Releases the mutex, waits to be signalled, and takes the mutex again.
 *
 * Returns 0, or EPERM when the calling thread does not hold the mutex.
 */
int lockyard_picond_wait(lockyard_picond_t *cond, lockyard_pimutex_t *mutex);

/*
 * Releases the mutex, waits to be signalled or until the deadline, and takes the mutex
 * again, however long that takes.
 *
 * Returns 0, ETIMEDOUT (with the mutex held), EINVAL for a malformed deadline, or EPERM
 * when the calling thread does not hold the mutex.
 */
int lockyard_picond_timedwait(lockyard_picond_t *cond,
                              lockyard_pimutex_t *mutex,
                              const struct timespec *deadline);

/*
 * Lets the most urgent thread that waits go on, if any waits. Returns 0.
 */
int lockyard_picond_signal(lockyard_picond_t *cond);

/*
 * Lets all threads that wait go on. Returns 0.
 */
int lockyard_picond_broadcast(lockyard_picond_t *cond);

/*
 * A lock for many readers or one writer.
 *
 * A writer that finds it held spins while the writer before it is on a CPU, then sleeps.
 * Running threads overtake sleeping ones for up to 4 ms; then the first sleeper is given
 * the lock. Readers that come join readers past a writer that sleeps for as long; the next
 * wakes it, and may join them until it runs, and from then on none does. So a thread that
 * reads already and reads again may wait for a writer that waits for it.
 */
typedef struct lockyard_rwlock_t {
    uint64_t opaque[3];
} lockyard_rwlock_t;

#define LOCKYARD_RWLOCK_INITIALIZER { { 0 } }

/*
 * Makes an unlocked lock. Returns 0.
 */
int lockyard_rwlock_init(lockyard_rwlock_t *lock);

/*
 * Ends the use of a lock. There is nothing to give back: it only says whether it was
 * right. No other thread may use it meanwhile.
 *
 * Returns 0, or EBUSY when it is held.
 */
int lockyard_rwlock_destroy(lockyard_rwlock_t *lock);

/*
 * Takes the lock as a reader, waiting as long as it takes.
 *
 * Returns 0, or EDEADLK when the calling thread is the writer.
 */
int lockyard_rwlock_rdlock(lockyard_rwlock_t *lock);

/*
 * Takes the lock as a reader if it need not wait for that.
 *
 * Returns 0, or EBUSY.
 */
int lockyard_rwlock_tryrdlock(lockyard_rwlock_t *lock);

/*
 * Takes the lock as a reader, waiting until the deadline at the latest.
 *
 * Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
 * thread is the writer.
 */
int lockyard_rwlock_timedrdlock(lockyard_rwlock_t *lock, const struct timespec *deadline);

/*
 * Takes the lock as the writer, waiting as long as it takes.
 *
 * Returns 0, or EDEADLK when the calling thread is the writer already.
 */
int lockyard_rwlock_wrlock(lockyard_rwlock_t *lock);

/*
 * Takes the lock as the writer if it is free.
 *
 * Returns 0, or EBUSY.
 */
int lockyard_rwlock_trywrlock(lockyard_rwlock_t *lock);

/*
 * Takes the lock as the writer, waiting until the deadline at the latest.
 *
 * Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
 * thread is the writer already.
 */
int lockyard_rwlock_timedwrlock(lockyard_rwlock_t *lock, const struct timespec *deadline);

/*
 * Releases the lock: as the writer if the calling thread is that, else as a reader. Once
 * another thread can take it, nothing of it is touched any more.
 *
 * Returns 0, or EPERM when nobody holds it, or another thread as the writer.
 *
 * Unless it is the writer, the calling thread is a reader, where anybody is.
 */
int lockyard_rwlock_unlock(lockyard_rwlock_t *lock);

/*
 * A lock for what is read all the time and written seldom.
 *
 * A reader writes to nothing that another CPU writes to, so readers do not slow each
 * other down. The writer pays: it interrupts the threads of the process that are on a
 * CPU, and adds up the counts of all CPUs.
 *
 * It takes sixteen bytes for every CPU as well, from its first use until it is destroyed; a
 * process can have 4 million at a time. A thread must not read again what it reads
 * already. A read lock may be released by another thread than the one that took it.
 */
typedef struct lockyard_percpu_rwlock_t {
    uint64_t opaque[4];
} lockyard_percpu_rwlock_t;

#define LOCKYARD_PERCPU_RWLOCK_INITIALIZER { { 0 } }

/*
 * Makes an unlocked lock. Returns 0.
 */
int lockyard_percpu_rwlock_init(lockyard_percpu_rwlock_t *lock);

/*
 * Ends the use of a lock and gives back its memory; that is not to be left out. The lock
 * is then as after lockyard_percpu_rwlock_init. No other thread may use it meanwhile.
 *
 * Returns 0, or EBUSY when it is held: then nothing was done.
 */
int lockyard_percpu_rwlock_destroy(lockyard_percpu_rwlock_t *lock);

/*
 * Takes the lock as a reader, waiting as long as it takes.
 *
 * Returns 0, or EDEADLK when the calling thread is the writer.
 */
int lockyard_percpu_rwlock_rdlock(lockyard_percpu_rwlock_t *lock);

/*
 * Takes the lock as a reader if it need not wait for that.
 *
 * Returns 0, or EBUSY.
 */
int lockyard_percpu_rwlock_tryrdlock(lockyard_percpu_rwlock_t *lock);

/*
 * Takes the lock as a reader, waiting until the deadline at the latest.
 *
 * Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
 * thread is the writer.
 */
int lockyard_percpu_rwlock_timedrdlock(lockyard_percpu_rwlock_t *lock,
                                       const struct timespec *deadline);

/*
 * Takes the lock as the writer, waiting as long as it takes.
 *
 * Returns 0, or EDEADLK when the calling thread is the writer already.
 */
int lockyard_percpu_rwlock_wrlock(lockyard_percpu_rwlock_t *lock);

/*
 * Takes the lock as the writer if it is free.
 *
 * Returns 0, or EBUSY, also when a reader only tried to get in meanwhile.
 */
int lockyard_percpu_rwlock_trywrlock(lockyard_percpu_rwlock_t *lock);

/*
 * Takes the lock as the writer, waiting until the deadline at the latest.
 *
 * Returns 0, ETIMEDOUT, EINVAL for a malformed deadline, or EDEADLK when the calling
 * thread is the writer already.
 */
int lockyard_percpu_rwlock_timedwrlock(lockyard_percpu_rwlock_t *lock,
                                       const struct timespec *deadline);

/*
 * Releases the lock: as the writer if the calling thread is that, else as a reader. Once
 * another thread can take it, nothing of it is touched any more.
 *
 * Returns 0. It does not notice a stranger: to count its readers would cost more than
 * all the rest.
 *
 * Unless it is the writer, the calling thread owns a read lock: its own, or one that
 * another thread has passed on to it.
 */
int lockyard_percpu_rwlock_unlock(lockyard_percpu_rwlock_t *lock);

/*
 * If the word holds what is expected, waits until the thread is woken, or until the
 * deadline; without one (a null pointer), as long as it takes.
 *
 * The futexes are of the threads of one process: a word is a uint32_t, atomic or not, known
 * by its address. Who waits here is woken from here, and not by the system call. No wake-up
 * is spurious, but it may have been for an earlier user of the memory: wait in a loop.
 * Real-time threads are woken by priority, all others after them in the order in which they
 * came. A word that is not aligned to four bytes gives EINVAL, as does a count above
 * INT_MAX. In a fork's child nobody waits.
 *
 * Returns 0 when a thread that woke this one has counted it, EAGAIN when the word holds
 * something else, ETIMEDOUT, or EINVAL.
 *
 * The word is changed by atomic operations alone, as long as it may be waited for.
 */
int lockyard_futex_wait(const volatile void *word,
                        uint32_t expected,
                        const struct timespec *deadline);

/*
 * lockyard_futex_wait for who wakes with a set of bits that has one in common with this
 * set; an empty set gives EINVAL.
 *
 * As lockyard_futex_wait.
 */
int lockyard_futex_wait_bitset(const volatile void *word,
                               uint32_t expected,
                               uint32_t bitset,
                               const struct timespec *deadline);

/*
 * A word that lockyard_futex_waitv waits for, and what it is expected to hold.
 */
typedef struct lockyard_futex_waitv_t {
    const volatile void *word;
    uint32_t expected;
} lockyard_futex_waitv_t;

/*
 * For so many words a thread can wait at once.
 */
#define LOCKYARD_FUTEX_WORDS 128

/*
 * A set of words of a wait: bit 0 of `low` is the first word's, bit 0 of `high` that of
 * the 65th.
 */
typedef struct lockyard_futex_set_t {
    uint64_t low;
    uint64_t high;
} lockyard_futex_set_t;

/*
 * If each of count words holds what is expected, waits for the first of them that is woken,
 * or until the deadline, if there is one. There are 1 to LOCKYARD_FUTEX_WORDS; other counts
 * give EINVAL.
 *
 * The words are looked at one after the other, and a thread may wake one meanwhile: that is
 * told, even if a later word holds something else. Each of these wake-ups has counted this
 * thread. Where `which` is not null it gets a set: with 0, of the words that were woken,
 * with EAGAIN, of one that had changed, otherwise of none.
 *
 * Returns 0, EAGAIN, ETIMEDOUT, or EINVAL.
 *
 * The words are changed by atomic operations alone, as long as they may be waited for.
 */
int lockyard_futex_waitv(const lockyard_futex_waitv_t *words,
                         uint32_t count,
                         const struct timespec *deadline,
                         lockyard_futex_set_t *which);

/*
 * Wakes so many threads at most that wait for the word; 0 are none. Where `woken` is not
 * null it gets their number, here and below, and with an error 0.
 *
 * The word is not read: it may have been freed.
 *
 * Returns 0 or EINVAL.
 */
int lockyard_futex_wake(const volatile void *word, uint32_t count, uint32_t *woken);

/*
 * lockyard_futex_wake of threads that wait with a set of bits that has one in common with
 * this set; an empty set gives EINVAL.
 */
int lockyard_futex_wake_bitset(const volatile void *word,
                               uint32_t count,
                               uint32_t bitset,
                               uint32_t *woken);

/*
 * Wakes so many threads at most that wait for `from`, and has up to `moves` others wait for
 * `to` instead, each with the deadline that it has. Where `moved` is not null it gets their
 * number. Between a word and itself nobody is moved. Neither word is read.
 *
 * Returns 0 or EINVAL.
 */
int lockyard_futex_requeue(const volatile void *from,
                           const volatile void *to,
                           uint32_t wakes,
                           uint32_t moves,
                           uint32_t *woken,
                           uint32_t *moved);

/*
 * lockyard_futex_requeue if `from` holds what is expected; else it returns EAGAIN. To those
 * who wait for either word, the comparison and what follows are one step.
 *
 * `from` is changed by atomic operations alone.
 */
int lockyard_futex_cmp_requeue(const volatile void *from,
                               uint32_t expected,
                               const volatile void *to,
                               uint32_t wakes,
                               uint32_t moves,
                               uint32_t *woken,
                               uint32_t *moved);

/*
 * The word becomes the operand.
 */
#define LOCKYARD_FUTEX_SET 0

/*
 * The operand is added, modulo 2^32.
 */
#define LOCKYARD_FUTEX_ADD 1

/*
 * The operand's bits are set.
 */
#define LOCKYARD_FUTEX_OR 2

/*
 * The operand's bits are cleared.
 */
#define LOCKYARD_FUTEX_ANDN 3

/*
 * The operand's bits are inverted.
 */
#define LOCKYARD_FUTEX_XOR 4

/*
 * Added to one of the numbers above: the operand is a bit's number, 0 to 31, and stands for
 * that bit.
 */
#define LOCKYARD_FUTEX_SHIFT 8

/*
 * The word was the value.
 */
#define LOCKYARD_FUTEX_EQ 0

/*
 * The word was not the value.
 */
#define LOCKYARD_FUTEX_NE 1

/*
 * The word was less than the value.
 */
#define LOCKYARD_FUTEX_LT 2

/*
 * The word was the value or less.
 */
#define LOCKYARD_FUTEX_LE 3

/*
 * The word was greater than the value.
 */
#define LOCKYARD_FUTEX_GT 4

/*
 * The word was the value or greater.
 */
#define LOCKYARD_FUTEX_GE 5

/*
 * What lockyard_futex_wake_op does to its second word, by one of the numbers above; and
 * what that must have been before for its waiters to be woken. Both it and the value are
 * taken for signed numbers. All numbers are those that the system call has for the same.
 */
typedef struct lockyard_futex_op_t {
    uint32_t change;
    uint32_t operand;
    uint32_t compare;
    uint32_t value;
} lockyard_futex_op_t;

/*
 * Changes the second word, wakes so many threads at most that wait for the first, and, if
 * the second was as the operation says, `count_second` that wait for that. To those who
 * wait for either word, the change and the wake-ups are one step. `woken` gets the number
 * of all. The first word is not read.
 *
 * Returns 0, or EINVAL: also for a change, a bit's number or a comparison that is none of
 * those above.
 *
 * The second word is changed by atomic operations alone.
 */
int lockyard_futex_wake_op(const volatile void *first,
                           uint32_t count,
                           volatile void *second,
                           uint32_t count_second,
                           const lockyard_futex_op_t *op,
                           uint32_t *woken);

#ifdef __cplusplus
}
#endif

#endif
