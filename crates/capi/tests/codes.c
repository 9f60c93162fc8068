/* Every number that a function of lockyard.h can return, and when. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <limits.h>
#include <lockyard.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int failures;

#define CHECK(call, expected)                                                             \
    do {                                                                                  \
        int returned = (call);                                                            \
        if (returned != (expected)) {                                                     \
            printf("line %d: %s is %d, not %s\n", __LINE__, #call, returned, #expected);  \
            failures++;                                                                   \
        }                                                                                 \
    } while (0)

/* Moments that need no waiting for. */
static const struct timespec past = {0, 0};
static const struct timespec before_all = {-1, 0};
static const struct timespec far = {LONG_MAX, 999999999};
/* More than 2^63 nanoseconds. */
static const struct timespec beyond = {10000000000, 0};
static const struct timespec bad = {0, 1000000000};
static const struct timespec worse = {0, -1};

struct call {
    int (*function)(void *);
    void *lock;
    int returned;
};

static void *make(void *call) {
    struct call *made = call;
    made->returned = made->function(made->lock);
    return NULL;
}

/* Calls it in another thread. */
static int elsewhere(int (*function)(void *), void *lock) {
    struct call call = {function, lock, -1};
    pthread_t thread;
    pthread_create(&thread, NULL, make, &call);
    pthread_join(thread, NULL);
    return call.returned;
}

#define MUTEX_AND_COND(mutex, MUTEX, cond, COND)                                          \
    static int mutex##_take_and_release(void *lock) {                                     \
        int error = lockyard_##mutex##_lock(lock);                                        \
        return error ? error : lockyard_##mutex##_unlock(lock);                           \
    }                                                                                     \
    static int mutex##_try(void *lock) { return lockyard_##mutex##_trylock(lock); }       \
    static int mutex##_late(void *lock) { return lockyard_##mutex##_timedlock(lock, &past); } \
    static int mutex##_later(void *lock) {                                                \
        return lockyard_##mutex##_timedlock(lock, &before_all);                           \
    }                                                                                     \
    static int mutex##_bad(void *lock) { return lockyard_##mutex##_timedlock(lock, &bad); } \
    static int mutex##_release(void *lock) { return lockyard_##mutex##_unlock(lock); }    \
                                                                                          \
    static void mutex##_codes(void) {                                                     \
        lockyard_##mutex##_t lock;                                                        \
        memset(&lock, 0xff, sizeof lock);                                                 \
        CHECK(lockyard_##mutex##_init(&lock), 0);                                         \
        CHECK(lockyard_##mutex##_unlock(&lock), EPERM);                                   \
        CHECK(lockyard_##mutex##_timedlock(&lock, &bad), EINVAL);                         \
        CHECK(lockyard_##mutex##_timedlock(&lock, &worse), EINVAL);                       \
        CHECK(lockyard_##mutex##_lock(&lock), 0);                                         \
        CHECK(lockyard_##mutex##_lock(&lock), EDEADLK);                                   \
        CHECK(lockyard_##mutex##_timedlock(&lock, &far), EDEADLK);                        \
        CHECK(lockyard_##mutex##_trylock(&lock), EBUSY);                                  \
        CHECK(lockyard_##mutex##_destroy(&lock), EBUSY);                                  \
        CHECK(elsewhere(mutex##_try, &lock), EBUSY);                                      \
        CHECK(elsewhere(mutex##_late, &lock), ETIMEDOUT);                                 \
        CHECK(elsewhere(mutex##_later, &lock), ETIMEDOUT);                                \
        CHECK(elsewhere(mutex##_bad, &lock), EINVAL);                                     \
        CHECK(elsewhere(mutex##_release, &lock), EPERM);                                  \
        CHECK(lockyard_##mutex##_unlock(&lock), 0);                                       \
        CHECK(lockyard_##mutex##_unlock(&lock), EPERM);                                   \
        CHECK(elsewhere(mutex##_take_and_release, &lock), 0);                             \
        CHECK(lockyard_##mutex##_timedlock(&lock, &past), 0);                             \
        CHECK(lockyard_##mutex##_unlock(&lock), 0);                                       \
        CHECK(lockyard_##mutex##_timedlock(&lock, &far), 0);                              \
        CHECK(lockyard_##mutex##_unlock(&lock), 0);                                       \
        CHECK(lockyard_##mutex##_trylock(&lock), 0);                                      \
        CHECK(lockyard_##mutex##_unlock(&lock), 0);                                       \
        CHECK(lockyard_##mutex##_destroy(&lock), 0);                                      \
    }                                                                                     \
                                                                                          \
    static struct {                                                                       \
        lockyard_##mutex##_t lock;                                                        \
        lockyard_##cond##_t changed;                                                      \
        int ready;                                                                        \
    } mutex##_shared = {LOCKYARD_##MUTEX##_INITIALIZER, LOCKYARD_##COND##_INITIALIZER, 0}; \
    static void *mutex##_prepare(void *notify) {                                          \
        lockyard_##mutex##_lock(&mutex##_shared.lock);                                    \
        mutex##_shared.ready = 1;                                                         \
        CHECK((*(int (**)(lockyard_##cond##_t *))notify)(&mutex##_shared.changed), 0);    \
        lockyard_##mutex##_unlock(&mutex##_shared.lock);                                  \
        return NULL;                                                                      \
    }                                                                                     \
    static void cond##_is_told(int (*notify)(lockyard_##cond##_t *), int timed) {         \
        pthread_t thread;                                                                 \
        CHECK(lockyard_##mutex##_lock(&mutex##_shared.lock), 0);                          \
        mutex##_shared.ready = 0;                                                         \
        pthread_create(&thread, NULL, mutex##_prepare, &notify);                          \
        while (!mutex##_shared.ready) {                                                   \
            if (timed)                                                                    \
                CHECK(lockyard_##cond##_timedwait(                                        \
                          &mutex##_shared.changed, &mutex##_shared.lock, &beyond), 0);    \
            else                                                                          \
                CHECK(lockyard_##cond##_wait(                                             \
                          &mutex##_shared.changed, &mutex##_shared.lock), 0);             \
        }                                                                                 \
        CHECK(lockyard_##mutex##_unlock(&mutex##_shared.lock), 0);                        \
        pthread_join(thread, NULL);                                                       \
    }                                                                                     \
                                                                                          \
    static void cond##_codes(void) {                                                      \
        lockyard_##mutex##_t lock = LOCKYARD_##MUTEX##_INITIALIZER;                       \
        lockyard_##cond##_t changed;                                                      \
        memset(&changed, 0xff, sizeof changed);                                           \
        CHECK(lockyard_##cond##_init(&changed), 0);                                       \
        CHECK(lockyard_##cond##_signal(&changed), 0);                                     \
        CHECK(lockyard_##cond##_broadcast(&changed), 0);                                  \
        CHECK(lockyard_##cond##_wait(&changed, &lock), EPERM);                            \
        CHECK(lockyard_##cond##_timedwait(&changed, &lock, &past), EPERM);                \
        CHECK(lockyard_##mutex##_lock(&lock), 0);                                         \
        CHECK(lockyard_##cond##_timedwait(&changed, &lock, &past), ETIMEDOUT);            \
        CHECK(lockyard_##cond##_timedwait(&changed, &lock, &before_all), ETIMEDOUT);      \
        CHECK(lockyard_##cond##_timedwait(&changed, &lock, &bad), EINVAL);                \
        CHECK(lockyard_##mutex##_unlock(&lock), 0);                                       \
        CHECK(lockyard_##cond##_destroy(&changed), 0);                                    \
        cond##_is_told(lockyard_##cond##_signal, 0);                                      \
        cond##_is_told(lockyard_##cond##_broadcast, 1);                                   \
    }

MUTEX_AND_COND(mutex, MUTEX, cond, COND)
MUTEX_AND_COND(pimutex, PIMUTEX, picond, PICOND)

#define RWLOCK(rw, RW)                                                                    \
    static int rw##_read_and_release(void *lock) {                                        \
        int error = lockyard_##rw##_rdlock(lock);                                         \
        return error ? error : lockyard_##rw##_unlock(lock);                              \
    }                                                                                     \
    static int rw##_write_and_release(void *lock) {                                       \
        int error = lockyard_##rw##_wrlock(lock);                                         \
        return error ? error : lockyard_##rw##_unlock(lock);                              \
    }                                                                                     \
    static int rw##_tryread(void *lock) { return lockyard_##rw##_tryrdlock(lock); }       \
    static int rw##_trywrite(void *lock) { return lockyard_##rw##_trywrlock(lock); }      \
    static int rw##_late_read(void *lock) { return lockyard_##rw##_timedrdlock(lock, &past); } \
    static int rw##_late_write(void *lock) {                                              \
        return lockyard_##rw##_timedwrlock(lock, &past);                                  \
    }                                                                                     \
    static int rw##_bad_read(void *lock) { return lockyard_##rw##_timedrdlock(lock, &bad); } \
    static int rw##_bad_write(void *lock) { return lockyard_##rw##_timedwrlock(lock, &bad); } \
                                                                                          \
    static void rw##_codes(void) {                                                        \
        lockyard_##rw##_t lock;                                                           \
        memset(&lock, 0xff, sizeof lock);                                                 \
        CHECK(lockyard_##rw##_init(&lock), 0);                                            \
        CHECK(lockyard_##rw##_timedrdlock(&lock, &bad), EINVAL);                          \
        CHECK(lockyard_##rw##_timedwrlock(&lock, &worse), EINVAL);                        \
        CHECK(lockyard_##rw##_rdlock(&lock), 0);                                          \
        CHECK(lockyard_##rw##_trywrlock(&lock), EBUSY);                                   \
        CHECK(lockyard_##rw##_destroy(&lock), EBUSY);                                     \
        CHECK(elsewhere(rw##_read_and_release, &lock), 0);                                \
        CHECK(elsewhere(rw##_trywrite, &lock), EBUSY);                                    \
        CHECK(elsewhere(rw##_late_write, &lock), ETIMEDOUT);                              \
        CHECK(elsewhere(rw##_bad_write, &lock), EINVAL);                                  \
        CHECK(lockyard_##rw##_unlock(&lock), 0);                                          \
        CHECK(lockyard_##rw##_tryrdlock(&lock), 0);                                       \
        CHECK(lockyard_##rw##_unlock(&lock), 0);                                          \
        CHECK(lockyard_##rw##_timedrdlock(&lock, &past), 0);                              \
        CHECK(lockyard_##rw##_unlock(&lock), 0);                                          \
        CHECK(lockyard_##rw##_wrlock(&lock), 0);                                          \
        CHECK(lockyard_##rw##_wrlock(&lock), EDEADLK);                                    \
        CHECK(lockyard_##rw##_rdlock(&lock), EDEADLK);                                    \
        CHECK(lockyard_##rw##_timedwrlock(&lock, &far), EDEADLK);                         \
        CHECK(lockyard_##rw##_timedrdlock(&lock, &far), EDEADLK);                         \
        CHECK(lockyard_##rw##_trywrlock(&lock), EBUSY);                                   \
        CHECK(lockyard_##rw##_tryrdlock(&lock), EBUSY);                                   \
        CHECK(lockyard_##rw##_destroy(&lock), EBUSY);                                     \
        CHECK(elsewhere(rw##_tryread, &lock), EBUSY);                                     \
        CHECK(elsewhere(rw##_late_read, &lock), ETIMEDOUT);                               \
        CHECK(elsewhere(rw##_bad_read, &lock), EINVAL);                                   \
        CHECK(elsewhere(rw##_late_write, &lock), ETIMEDOUT);                              \
        CHECK(lockyard_##rw##_unlock(&lock), 0);                                          \
        CHECK(elsewhere(rw##_write_and_release, &lock), 0);                               \
        CHECK(lockyard_##rw##_trywrlock(&lock), 0);                                       \
        CHECK(lockyard_##rw##_unlock(&lock), 0);                                          \
        CHECK(lockyard_##rw##_timedwrlock(&lock, &past), 0);                              \
        CHECK(lockyard_##rw##_unlock(&lock), 0);                                          \
        CHECK(lockyard_##rw##_destroy(&lock), 0);                                         \
    }

RWLOCK(rwlock, RWLOCK)
RWLOCK(percpu_rwlock, PERCPU_RWLOCK)

static uint32_t words[2];

/* Waits for the first word, which is moved to the second and woken there; with which set. */
static int futex_wait_for_ever(void *unused) {
    (void)unused;
    return lockyard_futex_wait(&words[0], 0, NULL);
}

static int futex_wait_bits(void *unused) {
    (void)unused;
    return lockyard_futex_wait_bitset(&words[0], 0, 6, &far);
}

static int futex_wait_for_two(void *unused) {
    const lockyard_futex_waitv_t both[2] = {{&words[1], 0}, {&words[0], 0}};
    lockyard_futex_set_t which;
    int error = lockyard_futex_waitv(both, 2, NULL, &which);
    (void)unused;
    return error ? error : (int)which.low;
}

/* A thread that waits: it has been moved to the second word. */
static void futex_waiter(pthread_t *thread, struct call *call) {
    uint32_t woken, moved = 0;
    pthread_create(thread, NULL, make, call);
    while (moved == 0)
        CHECK(lockyard_futex_requeue(&words[0], &words[1], 0, 1, &woken, &moved), 0);
    CHECK(woken, 0);
    CHECK(lockyard_futex_wake(&words[0], INT_MAX, &woken), 0);
    CHECK(woken, 0);
}

static void futex_is_woken(void) {
    struct call whole = {futex_wait_for_ever, NULL, -1}, bits = {futex_wait_bits, NULL, -1},
                two = {futex_wait_for_two, NULL, -1};
    const lockyard_futex_op_t add = {LOCKYARD_FUTEX_ADD, 5, 0, 0},
                              take = {LOCKYARD_FUTEX_ANDN + LOCKYARD_FUTEX_SHIFT, 2,
                                      LOCKYARD_FUTEX_LT, 5},
                              clear = {LOCKYARD_FUTEX_SET, 0, LOCKYARD_FUTEX_NE, 0};
    pthread_t thread;
    uint32_t woken, moved;

    futex_waiter(&thread, &bits);
    CHECK(lockyard_futex_wake_bitset(&words[1], 1, 1, &woken), 0);
    CHECK(woken, 0);
    CHECK(lockyard_futex_wake(&words[1], 0, &woken), 0);
    CHECK(woken, 0);
    CHECK(lockyard_futex_wake_bitset(&words[1], 1, 12, &woken), 0);
    CHECK(woken, 1);
    pthread_join(thread, NULL);
    CHECK(bits.returned, 0);

    futex_waiter(&thread, &whole);
    CHECK(lockyard_futex_cmp_requeue(&words[1], 1, &words[0], 1, 1, &woken, &moved), EAGAIN);
    CHECK(woken + moved, 0);
    CHECK(lockyard_futex_cmp_requeue(&words[1], 0, &words[0], 0, 1, NULL, &moved), 0);
    CHECK(moved, 1);
    CHECK(lockyard_futex_cmp_requeue(&words[0], 0, &words[1], 1, 1, &woken, NULL), 0);
    CHECK(woken, 1);
    pthread_join(thread, NULL);
    CHECK(whole.returned, 0);

    /* It waits for the second word, which the operation changes, and finds as asked. */
    futex_waiter(&thread, &whole);
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 0, &add, &woken), 0);
    CHECK(woken, 0);
    CHECK(words[1], 5);
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 1, &take, &woken), 0);
    CHECK(woken, 0);
    CHECK(words[1], 1);
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 1, &clear, &woken), 0);
    CHECK(woken, 1);
    CHECK(words[1], 0);
    pthread_join(thread, NULL);
    CHECK(whole.returned, 0);

    pthread_create(&thread, NULL, make, &two);
    do
        CHECK(lockyard_futex_wake(&words[0], 1, &woken), 0);
    while (woken == 0);
    pthread_join(thread, NULL);
    CHECK(two.returned, 2);
}

static void futex_codes(void) {
    const void *odd = (const char *)words + 1;
    const uint32_t many = (uint32_t)INT_MAX + 1;
    uint32_t woken = 7, moved = 7;
    lockyard_futex_set_t which = {7, 7};
    lockyard_futex_waitv_t many_words[LOCKYARD_FUTEX_WORDS];
    const lockyard_futex_waitv_t both[2] = {{&words[0], 0}, {&words[1], 1}}, none = {odd, 0};
    lockyard_futex_op_t op = {LOCKYARD_FUTEX_XOR + 1, 0, 0, 0};

    CHECK(lockyard_futex_wait(&words[0], 1, NULL), EAGAIN);
    CHECK(lockyard_futex_wait(&words[0], 1, &past), EAGAIN);
    CHECK(lockyard_futex_wait(&words[0], 0, &past), ETIMEDOUT);
    CHECK(lockyard_futex_wait(&words[0], 0, &before_all), ETIMEDOUT);
    CHECK(lockyard_futex_wait(&words[0], 1, &bad), EINVAL);
    CHECK(lockyard_futex_wait(odd, 0, NULL), EINVAL);
    CHECK(lockyard_futex_wait_bitset(&words[0], 0, 0, NULL), EINVAL);
    CHECK(lockyard_futex_wait_bitset(&words[0], 0, 1, &past), ETIMEDOUT);

    CHECK(lockyard_futex_wake(&words[0], INT_MAX, NULL), 0);
    CHECK(lockyard_futex_wake(&words[0], many, &woken), EINVAL);
    CHECK(woken, 0);
    CHECK(lockyard_futex_wake(odd, 1, NULL), EINVAL);
    CHECK(lockyard_futex_wake_bitset(&words[0], 1, 0, NULL), EINVAL);

    CHECK(lockyard_futex_requeue(&words[0], &words[1], many, 0, &woken, &moved), EINVAL);
    CHECK(lockyard_futex_requeue(&words[0], &words[1], 0, many, NULL, NULL), EINVAL);
    CHECK(lockyard_futex_requeue(&words[0], odd, 0, 0, NULL, NULL), EINVAL);
    CHECK(lockyard_futex_requeue(odd, &words[0], 0, 0, NULL, NULL), EINVAL);
    CHECK(lockyard_futex_requeue(&words[0], &words[0], 1, 1, &woken, &moved), 0);
    CHECK(woken + moved, 0);
    CHECK(lockyard_futex_cmp_requeue(&words[0], 1, &words[1], 1, many, NULL, NULL), EINVAL);
    CHECK(lockyard_futex_cmp_requeue(&words[0], 1, &words[1], 1, 1, NULL, NULL), EAGAIN);

    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 1, &op, &woken), EINVAL);
    op.change = LOCKYARD_FUTEX_SET + LOCKYARD_FUTEX_SHIFT;
    op.operand = 32;
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 1, &op, &woken), EINVAL);
    op.change = LOCKYARD_FUTEX_SET;
    op.operand = 7;
    op.compare = LOCKYARD_FUTEX_GE + 1;
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 1, &op, &woken), EINVAL);
    op.compare = LOCKYARD_FUTEX_EQ;
    CHECK(lockyard_futex_wake_op(&words[0], many, &words[1], 1, &op, &woken), EINVAL);
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], many, &op, &woken), EINVAL);
    CHECK(lockyard_futex_wake_op(odd, 1, &words[1], 1, &op, &woken), EINVAL);
    CHECK(words[1], 0);
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 1, &op, NULL), 0);
    CHECK(words[1], 7);
    op.change = LOCKYARD_FUTEX_OR;
    op.operand = 8;
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 1, &op, NULL), 0);
    CHECK(words[1], 15);
    op.change = LOCKYARD_FUTEX_XOR;
    op.operand = 15;
    CHECK(lockyard_futex_wake_op(&words[0], 1, &words[1], 1, &op, NULL), 0);
    CHECK(words[1], 0);

    CHECK(lockyard_futex_waitv(both, 0, NULL, NULL), EINVAL);
    CHECK(lockyard_futex_waitv(both, LOCKYARD_FUTEX_WORDS + 1, NULL, NULL), EINVAL);
    CHECK(lockyard_futex_waitv(&none, 1, NULL, &which), EINVAL);
    CHECK(lockyard_futex_waitv(both, 1, &worse, NULL), EINVAL);
    CHECK(which.low, 0);
    CHECK(lockyard_futex_waitv(both, 2, NULL, &which), EAGAIN);
    CHECK(which.low, 2);
    CHECK(lockyard_futex_waitv(both, 1, &past, &which), ETIMEDOUT);
    CHECK(which.low, 0);
    for (int i = 0; i < LOCKYARD_FUTEX_WORDS; i++)
        many_words[i] = both[0];
    CHECK(lockyard_futex_waitv(many_words, LOCKYARD_FUTEX_WORDS, &past, &which), ETIMEDOUT);
    many_words[LOCKYARD_FUTEX_WORDS - 1] = both[1];
    CHECK(lockyard_futex_waitv(many_words, LOCKYARD_FUTEX_WORDS, NULL, &which), EAGAIN);
    CHECK(which.low, 0);
    CHECK(which.high == 1ull << 63, 1);
}

static int rwlock_release(void *lock) { return lockyard_rwlock_unlock(lock); }
static int percpu_read(void *lock) { return lockyard_percpu_rwlock_rdlock(lock); }

int main(void) {
    lockyard_rwlock_t rwlock = LOCKYARD_RWLOCK_INITIALIZER;
    lockyard_percpu_rwlock_t percpu = LOCKYARD_PERCPU_RWLOCK_INITIALIZER;

    mutex_codes();
    cond_codes();
    CHECK(lockyard_prepare_thread(), 0);
    pimutex_codes();
    picond_codes();
    rwlock_codes();
    percpu_rwlock_codes();
    futex_codes();
    futex_is_woken();

    /* A stranger's unlock is noticed where that costs nothing. */
    CHECK(lockyard_rwlock_unlock(&rwlock), EPERM);
    CHECK(lockyard_rwlock_wrlock(&rwlock), 0);
    CHECK(elsewhere(rwlock_release, &rwlock), EPERM);
    CHECK(lockyard_rwlock_unlock(&rwlock), 0);

    /* A read lock of one thread is another's to release; the place is given back, and
     * the lock can be used again. */
    CHECK(elsewhere(percpu_read, &percpu), 0);
    CHECK(lockyard_percpu_rwlock_unlock(&percpu), 0);
    CHECK(lockyard_percpu_rwlock_destroy(&percpu), 0);
    CHECK(lockyard_percpu_rwlock_wrlock(&percpu), 0);
    CHECK(lockyard_percpu_rwlock_unlock(&percpu), 0);
    CHECK(lockyard_percpu_rwlock_destroy(&percpu), 0);

    printf("%d failures\n", failures);
    return failures != 0;
}
