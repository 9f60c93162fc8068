// What lockyard.hpp makes of the numbers, and that it fits what the standard asks for.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <lockyard.hpp>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <thread>
#include <type_traits>

static int failures;

#define CHECK(condition)                                      \
    if (!(condition)) {                                       \
        std::printf("line %d: %s\n", __LINE__, #condition);   \
        failures++;                                           \
    }

using namespace std::chrono;

// Deadlines by several clocks, in units coarse and fine, over and not to be reached.
template <class Lock>
static void waits_until(Lock lock) {
    CHECK(!lock(steady_clock::now()));
    CHECK(!lock(steady_clock::time_point(hours(-1))));
    CHECK(!lock(time_point_cast<milliseconds>(steady_clock::now()) - minutes(1)));
    CHECK(!lock(system_clock::now() + microseconds(100)));
    CHECK(!lock(system_clock::time_point(hours(-1))));
}

template <class Lock>
static void waits_for(Lock lock) {
    CHECK(!lock(hours::min()));
    CHECK(!lock(seconds(0)));
    CHECK(!lock(duration<double>(1e-4)));
}

/// The lock is not free when another thread asks for it, until then or for ever.
template <class Mutex, class Time>
static void waits_long(Mutex& mutex, Time deadline) {
    std::unique_lock held(mutex);
    std::atomic<bool> asks{false};
    std::thread other([&] {
        asks = true;
        CHECK(std::unique_lock(mutex, deadline));
    });
    while (!asks) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(1));
    held.unlock();
    other.join();
}

template <class Mutex>
static void exclusive() {
    static_assert(!std::is_copy_constructible_v<Mutex> && !std::is_move_assignable_v<Mutex>);
    static_assert(std::is_nothrow_default_constructible_v<Mutex>);
    static_assert(noexcept(std::declval<Mutex&>().unlock()));
    Mutex mutex;
    {
        std::lock_guard guard(mutex);
        CHECK(!mutex.try_lock());
        try {
            mutex.lock();
            CHECK(!"the second lock returned");
        } catch (const std::system_error& error) {
            CHECK(error.code() == std::errc::resource_deadlock_would_occur);
        }
        std::thread([&] {
            CHECK(!std::unique_lock(mutex, std::try_to_lock));
            waits_until([&](auto at) { return std::unique_lock(mutex, at).owns_lock(); });
            waits_for([&](auto time) { return std::unique_lock(mutex, time).owns_lock(); });
            CHECK(!std::unique_lock(mutex, steady_clock::time_point::min()));
            CHECK(!std::unique_lock(mutex, system_clock::time_point::min()));
            CHECK(!std::unique_lock(mutex, time_point<system_clock, hours>::min()));
        }).join();
    }
    // Moments that are not to come while it is held.
    waits_long(mutex, system_clock::time_point::max());
    waits_long(mutex, time_point<system_clock, seconds>::max());
    waits_long(mutex, time_point<steady_clock, hours>(hours(24 * 365'000)));
    waits_long(mutex, time_point<steady_clock, duration<double>>(duration<double>(1e12)));
    // A free lock is had in no time and at any time.
    CHECK(std::unique_lock(mutex, seconds(0)));
    CHECK(std::unique_lock(mutex, hours::max()));
    CHECK(std::unique_lock(mutex, steady_clock::time_point::max()));
    CHECK(std::unique_lock(mutex, system_clock::time_point(hours(-1))));
    Mutex other;
    std::scoped_lock both(mutex, other);
    CHECK(!mutex.try_lock() && mutex.native_handle() != other.native_handle());
}

template <class Mutex>
static void shared() {
    exclusive<Mutex>();
    Mutex mutex;
    {
        std::shared_lock reading(mutex);
        CHECK(!mutex.try_lock());
        std::thread([&] {
            CHECK(std::shared_lock(mutex));
            CHECK(std::shared_lock(mutex, std::try_to_lock));
            CHECK(std::shared_lock(mutex, hours::max()));
            waits_until([&](auto at) { return std::unique_lock(mutex, at).owns_lock(); });
        }).join();
    }
    std::unique_lock writing(mutex);
    std::thread([&] {
        waits_until([&](auto at) { return std::shared_lock(mutex, at).owns_lock(); });
        waits_for([&](auto time) { return std::shared_lock(mutex, time).owns_lock(); });
    }).join();
}

template <class Condition, class Mutex>
static void condition() {
    Mutex mutex;
    Condition changed;
    std::unique_lock lock(mutex, std::defer_lock);
    try {
        changed.wait(lock);
        CHECK(!"it waited without the mutex");
    } catch (const std::system_error& error) {
        CHECK(error.code() == std::errc::operation_not_permitted);
    }
    lock.lock();
    waits_until([&](auto at) { return changed.wait_until(lock, at, [] { return false; }); });
    waits_for([&](auto time) { return changed.wait_for(lock, time, [] { return false; }); });
    CHECK(changed.wait_until(lock, steady_clock::now()) == std::cv_status::timeout);
    CHECK(lock.owns_lock() && !mutex.try_lock());

    int turns = 0;
    std::thread other([&] {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return turns == 1; });
        turns = 2;
        changed.notify_one();
    });
    turns = 1;
    changed.notify_all();
    CHECK(changed.wait_for(lock, hours::max(), [&] { return turns == 2; }));
    other.join();
}

static void futex() {
    namespace futex = lockyard::futex;
    futex::word here{0}, there{0};
    waits_until([&](auto at) { return futex::wait_until(here, 0, at) == futex::status::woken; });
    waits_for([&](auto time) { return futex::wait_for(here, 0, time) != futex::status::timed_out; });
    CHECK(futex::wait(here, 1) == futex::status::changed);
    CHECK(futex::wait_for(here, 1, hours::max()) == futex::status::changed);
    CHECK(futex::wait_until(here, 1, system_clock::now()) == futex::status::changed);
    CHECK(futex::wake(&here, futex::all) == 0);
    try {
        futex::wake(&here, UINT32_MAX);
        CHECK(!"it woke more than there are");
    } catch (const std::system_error& error) {
        CHECK(error.code() == std::errc::invalid_argument);
    }

    std::thread waiter([&] {
        CHECK(futex::wait_for(here, 0, hours(1), 6) == futex::status::woken);
        CHECK(futex::wait(here, 0) == futex::status::woken);
    });
    while (futex::requeue(&here, &there, 0, 1).moved == 0) std::this_thread::yield();
    CHECK(futex::wake(&here, 1) == 0 && futex::wake(&there, 1, 1) == 0);
    CHECK(futex::wake(&there, futex::all, 2) == 1);
    while (futex::requeue(&here, &there, 1, 0).woken == 0) std::this_thread::yield();
    waiter.join();
}

int main() {
    exclusive<lockyard::mutex>();
    exclusive<lockyard::timed_mutex>();
    exclusive<lockyard::pi_mutex>();
    shared<lockyard::shared_mutex>();
    shared<lockyard::percpu_shared_mutex>();
    condition<lockyard::condition_variable, lockyard::mutex>();
    condition<lockyard::pi_condition_variable, lockyard::pi_mutex>();
    futex();
    std::printf("%d failures\n", failures);
    return failures != 0;
}
