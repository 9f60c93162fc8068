// lockyard.h for C++17: locks for std::lock_guard, std::unique_lock, std::shared_lock and
// std::scoped_lock, under the names of the standard library where it has the like.
//
//   std::mutex, std::timed_mutex    lockyard::mutex, also called timed_mutex
//   std::shared_timed_mutex         lockyard::shared_mutex, lockyard::percpu_shared_mutex
//   std::condition_variable         lockyard::condition_variable
//                                   lockyard::pi_mutex, lockyard::pi_condition_variable
//
// The futex of a std::atomic<std::uint32_t> is in lockyard::futex.
//
// All locks have constexpr constructors: globals are ready before any code runs. lockyard.h says
// what each lock is for.
//
// Locking throws std::system_error where the C function returns EDEADLK, as does waiting
// with a mutex that is not held; without exceptions it aborts. To unlock what is not held
// ends the process where that can be told: of readers there is only a number, or not even that
// (lockyard.h). A condition variable must outlive each wait with it; that all waiters
// were notified, as the standard asks, is not enough.
#ifndef LOCKYARD_HPP
#define LOCKYARD_HPP

#include "lockyard.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <system_error>
#include <type_traits>
#include <utility>

namespace lockyard {

namespace detail {

// Whether the call got what it asked for; the alternative is `unless`.
inline bool got(int error, int unless = 0) {
    if (error == 0) return true;
    if (error == unless) return false;
#if defined(__cpp_exceptions)
    throw std::system_error(error, std::generic_category(), "lockyard");
#else
    std::abort();
#endif
}

inline void released(int error) noexcept {
    if (error != 0) std::abort();
}

// The moment after a duration. Longer ones than fit in a time are forever.
template <class Rep, class Period>
std::chrono::steady_clock::time_point after(const std::chrono::duration<Rep, Period>& duration) {
    using clock = std::chrono::steady_clock;
    const auto now = clock::now();
    if (duration <= duration.zero()) return now;
    const std::chrono::duration<double> left = clock::time_point::max() - now;
    if (std::chrono::duration<double>(duration) >= left) return clock::time_point::max();
    // Rounded up: nobody is to wait less than he said.
    return now + std::chrono::ceil<clock::duration>(duration);
}

// As long as matters: what is longer does not fit in a time of every clock.
constexpr std::chrono::hours century{24 * 36525};

// libstdc++ and libc++ have made their steady clock of CLOCK_MONOTONIC.
template <class Duration>
std::timespec to_timespec(
    const std::chrono::time_point<std::chrono::steady_clock, Duration>& deadline) {
    using namespace std::chrono;
    const duration<double> rough = deadline.time_since_epoch();
    nanoseconds since = nanoseconds::zero(); // or long past
    if (rough >= century) since = century;
    else if (rough > since) since = ceil<nanoseconds>(deadline.time_since_epoch());
    const auto whole = floor<duration<std::time_t>>(since);
    std::timespec at{};
    at.tv_sec = whole.count();
    at.tv_nsec = duration<long, std::nano>(since - whole).count();
    return at;
}

// How long it is until then.
template <class Clock, class Duration>
std::chrono::nanoseconds left(const std::chrono::time_point<Clock, Duration>& deadline) {
    using namespace std::chrono;
    const auto now = Clock::now();
    duration<double> rough = deadline.time_since_epoch();
    rough -= duration<double>(now.time_since_epoch());
    if (rough >= century) return century;
    if (rough <= -century) return -century;
    return ceil<nanoseconds>(deadline - now);
}

// Waits by `wait` until the deadline at the latest: what it says by then.
template <class Duration, class Wait>
bool until(const std::chrono::time_point<std::chrono::steady_clock, Duration>& deadline,
           Wait wait) {
    const std::timespec at = to_timespec(deadline);
    return got(wait(&at), ETIMEDOUT);
}

// By another clock, which may be set meanwhile: waits as long as it has to go, and looks.
template <class Clock, class Duration, class Wait>
bool until(const std::chrono::time_point<Clock, Duration>& deadline, Wait wait) {
    do {
        if (until(after(left(deadline)), wait)) return true;
    } while (left(deadline) > std::chrono::nanoseconds::zero());
    return false;
}

template <class Native, int (*Lock)(Native*), int (*Try)(Native*),
          int (*Timed)(Native*, const ::timespec*), int (*Unlock)(Native*)>
class mutex {
public:
    using native_handle_type = Native*;

    constexpr mutex() noexcept = default;
    mutex(const mutex&) = delete;
    mutex& operator=(const mutex&) = delete;

    void lock() { got(Lock(&native_)); }
    bool try_lock() { return got(Try(&native_), EBUSY); }
    void unlock() noexcept { released(Unlock(&native_)); }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period>& duration) {
        return try_lock_until(after(duration));
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
        return until(deadline, [this](const ::timespec* at) { return Timed(&native_, at); });
    }

    native_handle_type native_handle() noexcept { return &native_; }

private:
    Native native_{};
};

template <class Native, int (*Read)(Native*), int (*TryRead)(Native*),
          int (*TimedRead)(Native*, const ::timespec*), int (*Write)(Native*),
          int (*TryWrite)(Native*),
          int (*TimedWrite)(Native*, const ::timespec*), int (*Unlock)(Native*)>
class shared_mutex {
public:
    using native_handle_type = Native*;

    constexpr shared_mutex() noexcept = default;
    shared_mutex(const shared_mutex&) = delete;
    shared_mutex& operator=(const shared_mutex&) = delete;

    void lock() { got(Write(&native_)); }
    bool try_lock() { return got(TryWrite(&native_), EBUSY); }
    void unlock() noexcept { released(Unlock(&native_)); }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period>& duration) {
        return try_lock_until(after(duration));
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
        return until(deadline, [this](const ::timespec* at) { return TimedWrite(&native_, at); });
    }

    void lock_shared() { got(Read(&native_)); }
    bool try_lock_shared() { return got(TryRead(&native_), EBUSY); }
    void unlock_shared() noexcept { released(Unlock(&native_)); }

    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& duration) {
        return try_lock_shared_until(after(duration));
    }

    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline) {
        return until(deadline, [this](const ::timespec* at) { return TimedRead(&native_, at); });
    }

    native_handle_type native_handle() noexcept { return &native_; }

private:
    Native native_{};
};

template <class Mutex, class Native, int (*Wait)(Native*, typename Mutex::native_handle_type),
          int (*Timed)(Native*, typename Mutex::native_handle_type, const ::timespec*),
          int (*Signal)(Native*), int (*Broadcast)(Native*)>
class condition_variable {
public:
    using native_handle_type = Native*;

    constexpr condition_variable() noexcept = default;
    condition_variable(const condition_variable&) = delete;
    condition_variable& operator=(const condition_variable&) = delete;

    void notify_one() noexcept { Signal(&native_); }
    void notify_all() noexcept { Broadcast(&native_); }

    void wait(std::unique_lock<Mutex>& lock) { got(Wait(&native_, native(lock))); }

    template <class Predicate>
    void wait(std::unique_lock<Mutex>& lock, Predicate done) {
        while (!done()) wait(lock);
    }

    template <class Clock, class Duration>
    std::cv_status wait_until(std::unique_lock<Mutex>& lock,
                              const std::chrono::time_point<Clock, Duration>& deadline) {
        const auto mutex = native(lock);
        const auto timed = [&](const ::timespec* at) { return Timed(&native_, mutex, at); };
        bool early;
        if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
            early = until(deadline, timed);
        } else {
            // Not to be waited for twice: a notification in between would be lost.
            early = until(after(left(deadline)), timed) || left(deadline) > std::chrono::nanoseconds::zero();
        }
        return early ? std::cv_status::no_timeout : std::cv_status::timeout;
    }

    template <class Clock, class Duration, class Predicate>
    bool wait_until(std::unique_lock<Mutex>& lock,
                    const std::chrono::time_point<Clock, Duration>& deadline, Predicate done) {
        while (!done()) {
            if (wait_until(lock, deadline) == std::cv_status::timeout) return done();
        }
        return true;
    }

    template <class Rep, class Period>
    std::cv_status wait_for(std::unique_lock<Mutex>& lock,
                            const std::chrono::duration<Rep, Period>& duration) {
        return wait_until(lock, after(duration));
    }

    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<Mutex>& lock,
                  const std::chrono::duration<Rep, Period>& duration, Predicate done) {
        return wait_until(lock, after(duration), std::move(done));
    }

    native_handle_type native_handle() noexcept { return &native_; }

private:
    // A lock without its mutex is a mutex that is not held.
    static typename Mutex::native_handle_type native(const std::unique_lock<Mutex>& lock) {
        got(lock.owns_lock() ? 0 : EPERM);
        return lock.mutex()->native_handle();
    }

    Native native_{};
};

}  // namespace detail

using mutex = detail::mutex<lockyard_mutex_t, lockyard_mutex_lock, lockyard_mutex_trylock,
                            lockyard_mutex_timedlock, lockyard_mutex_unlock>;
using timed_mutex = mutex;

using condition_variable =
    detail::condition_variable<mutex, lockyard_cond_t, lockyard_cond_wait, lockyard_cond_timedwait,
                               lockyard_cond_signal, lockyard_cond_broadcast>;

using pi_mutex = detail::mutex<lockyard_pimutex_t, lockyard_pimutex_lock, lockyard_pimutex_trylock,
                               lockyard_pimutex_timedlock, lockyard_pimutex_unlock>;

using pi_condition_variable =
    detail::condition_variable<pi_mutex, lockyard_picond_t, lockyard_picond_wait,
                               lockyard_picond_timedwait, lockyard_picond_signal,
                               lockyard_picond_broadcast>;

using shared_mutex =
    detail::shared_mutex<lockyard_rwlock_t, lockyard_rwlock_rdlock, lockyard_rwlock_tryrdlock,
                         lockyard_rwlock_timedrdlock, lockyard_rwlock_wrlock,
                         lockyard_rwlock_trywrlock, lockyard_rwlock_timedwrlock,
                         lockyard_rwlock_unlock>;

class percpu_shared_mutex
    : public detail::shared_mutex<lockyard_percpu_rwlock_t, lockyard_percpu_rwlock_rdlock,
                                  lockyard_percpu_rwlock_tryrdlock,
                                  lockyard_percpu_rwlock_timedrdlock, lockyard_percpu_rwlock_wrlock,
                                  lockyard_percpu_rwlock_trywrlock,
                                  lockyard_percpu_rwlock_timedwrlock,
                                  lockyard_percpu_rwlock_unlock> {
public:
    // The one lock that has something to give back.
    ~percpu_shared_mutex() { lockyard_percpu_rwlock_destroy(native_handle()); }
};

// lockyard.h says what a wait promises, and has what is not here: its functions take the
// address of a word, too. An empty set of bits and a count above INT_MAX throw as EINVAL.
namespace futex {

using word = std::atomic<std::uint32_t>;
static_assert(sizeof(word) == sizeof(std::uint32_t) && word::is_always_lock_free);

enum class status { woken, timed_out, changed };

struct requeued {
    std::uint32_t woken, moved;
};

// All threads, and all bits.
inline constexpr std::uint32_t all = INT_MAX, every_bit = UINT32_MAX;

inline status wait(const word& on, std::uint32_t expected, std::uint32_t bitset = every_bit) {
    const int error = lockyard_futex_wait_bitset(&on, expected, bitset, nullptr);
    return detail::got(error, EAGAIN) ? status::woken : status::changed;
}

template <class Clock, class Duration>
status wait_until(const word& on, std::uint32_t expected,
                  const std::chrono::time_point<Clock, Duration>& deadline,
                  std::uint32_t bitset = every_bit) {
    bool changed = false;
    const bool over = detail::until(deadline, [&](const ::timespec* at) {
        const int error = lockyard_futex_wait_bitset(&on, expected, bitset, at);
        changed = error == EAGAIN;
        return changed ? 0 : error;
    });
    if (changed) return status::changed;
    return over ? status::woken : status::timed_out;
}

template <class Rep, class Period>
status wait_for(const word& on, std::uint32_t expected,
                const std::chrono::duration<Rep, Period>& duration,
                std::uint32_t bitset = every_bit) {
    return wait_until(on, expected, detail::after(duration), bitset);
}

// Returns how many threads it woke. The word may have been freed: it is not read.
inline std::uint32_t wake(const word* on, std::uint32_t count,
                          std::uint32_t bitset = every_bit) {
    std::uint32_t woken;
    detail::got(lockyard_futex_wake_bitset(on, count, bitset, &woken));
    return woken;
}

inline requeued requeue(const word* from, const word* to, std::uint32_t wakes,
                        std::uint32_t moves) {
    requeued done;
    detail::got(lockyard_futex_requeue(from, to, wakes, moves, &done.woken, &done.moved));
    return done;
}

}  // namespace futex

}  // namespace lockyard

#endif
