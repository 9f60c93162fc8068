// Every lock with the standard library's guards: globals, readers and writers, two locks
// at once, deadlines.
#include <array>
#include <chrono>
#include <cstdio>
#include <lockyard.hpp>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

using namespace std::chrono_literals;

// Ready before any constructor runs.
static lockyard::mutex from, to;
static lockyard::percpu_shared_mutex routes;
static int account[2] = {1000, 0};

// Two accounts at once, in whatever order others take them.
static void transfer(lockyard::mutex& first, lockyard::mutex& second) {
    for (int i = 0; i < 500; i++) {
        std::scoped_lock lock(first, second);
        account[0]--;
        account[1]++;
    }
}

class phone_book {
public:
    std::string find() const {
        std::shared_lock lock(mutex_);
        return number_;
    }
    void set(std::string number) {
        std::lock_guard lock(mutex_);
        number_ = std::move(number);
    }

private:
    mutable lockyard::shared_mutex mutex_;
    std::string number_ = "none";
};

// Whether a thread beside this one can take the lock in that time.
template <class Lock, class Mutex>
static bool can_take(Mutex& mutex, std::chrono::milliseconds time) {
    bool taken = false;
    std::thread([&] { taken = Lock(mutex, time).owns_lock(); }).join();
    return taken;
}

int main() {
    std::thread other(transfer, std::ref(to), std::ref(from));
    transfer(from, to);
    other.join();
    std::printf("accounts: %d and %d\n", account[0], account[1]);

    phone_book book;
    book.set("555");
    std::printf("number: %s\n", book.find().c_str());

    {
        std::shared_lock reading(routes);
        std::printf("beside a reader: read %d, write %d\n",
                    can_take<std::shared_lock<lockyard::percpu_shared_mutex>>(routes, 1h),
                    can_take<std::unique_lock<lockyard::percpu_shared_mutex>>(routes, 10ms));
    }

    lockyard::pi_mutex setpoint;
    lockyard::pi_condition_variable changed;
    std::unique_lock lock(setpoint);
    const bool told = changed.wait_for(lock, 10ms, [] { return false; });
    std::printf("told: %d, ours: %d\n", told, lock.owns_lock());
}
