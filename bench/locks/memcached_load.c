/* Loads a memcached: memcached_load PORT THREADS SECONDS. Prints the requests per second. Of ten
 * requests, one sets a key and nine get one. There are 10000 keys with values of 100 bytes. Each
 * thread has one connection, with 16 requests in flight. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 16, KEYS = 10000, VALUE = 100 };

static int port, seconds;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int connected(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        fail("connect");
    return fd;
}

/* Reads until `count` answers are complete. Each ends with a line STORED or END. */
static void read_answers(int fd, int count)
{
    static __thread char bytes[1 << 16];
    size_t filled = 0;
    while (count > 0) {
        ssize_t n = read(fd, bytes + filled, sizeof bytes - filled);
        if (n <= 0)
            fail("read");
        filled += n;
        char *line = bytes, *end;
        while ((end = memchr(line, '\n', filled - (line - bytes)))) {
            if (!memcmp(line, "STORED", 6) || !memcmp(line, "END", 3))
                count--;
            line = end + 1;
        }
        filled -= line - bytes;
        memmove(bytes, line, filled);
    }
}

static void *ask(void *arg)
{
    unsigned seed = (unsigned)(size_t)arg;
    size_t asked = 0;
    char out[BATCH * (VALUE + 64)], value[VALUE + 1];
    int fd = connected();
    memset(value, 'v', VALUE);
    value[VALUE] = 0;
    for (double end = now() + seconds; now() < end; asked += BATCH) {
        int length = 0;
        for (int i = 0; i < BATCH; i++) {
            int key = rand_r(&seed) % KEYS;
            length += rand_r(&seed) % 10
                ? sprintf(out + length, "get key%d\r\n", key)
                : sprintf(out + length, "set key%d 0 0 %d\r\n%s\r\n", key, VALUE, value);
        }
        if (write(fd, out, length) != length)
            fail("write");
        read_answers(fd, BATCH);
    }
    close(fd);
    return (void *)asked;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    port = atoi(argv[1]);
    seconds = atoi(argv[3]);
    int count = atoi(argv[2]);
    pthread_t *threads = calloc(count, sizeof *threads);
    size_t sum = 0;
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, ask, (void *)(i + 1)))
            fail("pthread_create");
    for (int i = 0; i < count; i++) {
        void *asked;
        pthread_join(threads[i], &asked);
        sum += (size_t)asked;
    }
    printf("%.0f\n", (double)sum / seconds);
    return 0;
}
