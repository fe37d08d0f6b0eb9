// Locks of C++, which are implemented by the locks of C.
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "expect.h"

using namespace std::chrono_literals;

static void threads_of_all_kinds(long n)
{
    std::mutex plain;
    std::timed_mutex timed;
    std::recursive_mutex nested;
    std::recursive_timed_mutex nested_timed;
    std::shared_mutex shared;
    std::shared_timed_mutex shared_timed;
    long sum = 0;
    auto work = [&] {
        for (long i = 0; i < n; i++) {
            { std::lock_guard guard(plain); sum++; }
            { std::lock_guard guard(timed); }
            { std::lock_guard outer(nested); std::lock_guard inner(nested); }
            { std::lock_guard outer(nested_timed); std::lock_guard inner(nested_timed); }
            { std::shared_lock guard(shared); }
            { std::unique_lock guard(shared); }
            { std::shared_lock guard(shared_timed); }
            { std::unique_lock guard(shared_timed); }
        }
        held(MUTEX, 4 * n);
        held(READING, 2 * n);
        did(READING, SHARED, 2 * n);
        held(WRITING, 2 * n);
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back(work);
    for (auto &thread : threads)
        thread.join();
    MUST(sum == 8 * n);
}

static void tries()
{
    std::timed_mutex timed;
    std::recursive_timed_mutex nested;
    std::shared_timed_mutex shared;
    std::mutex plain;
    std::unique_lock a(timed);
    std::unique_lock b(nested);
    std::unique_lock c(shared);
    std::unique_lock d(plain);
    std::thread([&] {
        MUST(!timed.try_lock());
        MUST(!timed.try_lock_for(2ms));
        MUST(!nested.try_lock());
        MUST(!nested.try_lock_until(std::chrono::steady_clock::now() + 2ms));
        MUST(!shared.try_lock());
        MUST(!shared.try_lock_for(2ms));
        MUST(!shared.try_lock_shared());
        MUST(!shared.try_lock_shared_for(2ms));
        MUST(!plain.try_lock());
        did(MUTEX, TRY_FAILED, 3);
        did(MUTEX, TIMED_OUT, 2);
        did(WRITING, TRY_FAILED, 1);
        did(WRITING, TIMED_OUT, 1);
        did(READING, TRY_FAILED, 1);
        did(READING, TIMED_OUT, 1);
    }).join();
    held(MUTEX, 3);
    held(WRITING, 1);
}

static void conditions(long n)
{
    std::mutex mutex;
    std::condition_variable changed;
    std::condition_variable_any any;
    long turn = 0;
    std::thread other([&] {
        std::unique_lock lock(mutex);
        held(MUTEX, 1);
        while (turn < 2 * n) {
            while (turn % 2 == 0 && turn < 2 * n) {
                changed.wait(lock);
                held(SLEPT, 1);
                did(SLEPT, ASLEEP, 1);
            }
            turn++;
            changed.notify_one();
        }
    });
    {
        std::unique_lock lock(mutex);
        held(MUTEX, 1);
        while (turn < 2 * n) {
            while (turn % 2 == 1) {
                changed.wait_for(lock, 60s);
                held(SLEPT, 1);
                did(SLEPT, ASLEEP, 1);
            }
            turn++;
            changed.notify_one();
        }
    }
    other.join();
}

int main(int argc, char **argv)
{
    MUST(argc == 2);
    threads_of_all_kinds(atol(argv[1]));
    tries();
    conditions(atol(argv[1]));
    say_expected();
}
