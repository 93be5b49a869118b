/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Runs a fuzz target without libFuzzer:
 *
 *     fuzz_x [--seconds S] [--seed N] FILE|FOLDER...
 *
 * First every file as it is; then, for S seconds (default 0), files that were changed at random.
 * The numbers come from the seed alone, so a run can be repeated. What the target was given when
 * it died is left in the file fuzz-died in the working directory.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define ENTRIES_MAX 4096
#define DIED "fuzz-died"

struct entry {
    uint8_t *data;
    size_t bytes;
};

static struct entry corpus[ENTRIES_MAX];
static size_t corpus_size;

static uint8_t current[FUZZ_BYTES_MAX];
static size_t current_bytes;

/* what the sanitizers offer where they are linked in */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void keep_current(void)
{
    FILE *file = fopen(DIED, "wb");
    if (file == NULL)
        return;
    fwrite(current, 1, current_bytes, file);
    fclose(file);
    fprintf(stderr, "fuzz: the input of %zu bytes is in %s\n", current_bytes, DIED);
}

static void on_signal(int number)
{
    signal(number, SIG_DFL);
    keep_current();
    raise(number);
}

static void watch_for_death(void)
{
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(keep_current);
    signal(SIGABRT, on_signal);
    if (__sanitizer_set_death_callback == NULL) {
        signal(SIGSEGV, on_signal);
        signal(SIGFPE, on_signal);
    }
}

/** The target gets memory of exactly the input's size. */
static void run_current(void)
{
    void *allocation;
    uint8_t *copy = fuzz_copy(current, current_bytes, 0, &allocation);
    LLVMFuzzerTestOneInput(copy, current_bytes);
    free(allocation);
}

static void set_current(const struct entry *entry)
{
    current_bytes = entry->bytes;
    if (entry->bytes > 0)
        memcpy(current, entry->data, entry->bytes);
}

/* ---- the corpus ---- */

static void add_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file != NULL && corpus_size < ENTRIES_MAX, "%s: cannot be read", path);
    struct entry *entry = &corpus[corpus_size++];
    size_t bytes = fread(current, 1, sizeof(current), file);
    void *allocation;
    fclose(file);
    entry->data = fuzz_copy(current, bytes, 0, &allocation);
    entry->bytes = bytes;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void add_path(const char *path)
{
    struct stat about;
    struct dirent **names;
    FUZZ_CHECK(stat(path, &about) == 0, "%s: not there", path);
    if (!S_ISDIR(about.st_mode)) {
        add_file(path);
        return;
    }
    int n = scandir(path, &names, is_visible, alphasort); /* always in the same order */
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, names[i]->d_name);
        add_file(name);
        free(names[i]);
    }
    free(names);
}

/* ---- changes ---- */

static uint64_t state;

/** The next of splitmix64, below `limit`. */
static uint64_t draw(uint64_t limit)
{
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return limit > 0 ? z % limit : 0;
}

/** Numbers at which sizes, counts and floats turn. */
static void overwrite_number(void)
{
    static const uint32_t numbers[] = {0,          1,          2,          7,          0x7F,
                                       0xFF,       0x100,      0x7FFF,     0xFFFF,     0x10000,
                                       0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x7F800000,
                                       0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x3F800000, 0x00800000};
    uint32_t number = numbers[draw(sizeof(numbers) / sizeof(numbers[0]))];
    size_t bytes = (size_t)1 << draw(3);
    if (current_bytes >= bytes)
        memcpy(current + draw(current_bytes - bytes + 1), &number, bytes);
}

static void change_byte(void)
{
    if (current_bytes == 0)
        return;
    uint8_t *at = &current[draw(current_bytes)];
    switch (draw(3)) {
    case 0:
        *at ^= (uint8_t)(1u << draw(8));
        return;
    case 1:
        *at = (uint8_t)draw(256);
        return;
    default:
        *at = (uint8_t)(*at + draw(5) - 2);
    }
}

static void erase_range(void)
{
    size_t at = draw(current_bytes + 1), bytes = draw(current_bytes - at + 1);
    if (bytes > 64 && draw(2))
        bytes = draw(64);
    memmove(current + at, current + at + bytes, current_bytes - at - bytes);
    current_bytes -= bytes;
}

static void insert_bytes(const uint8_t *data, size_t bytes)
{
    size_t at = draw(current_bytes + 1);
    if (bytes > sizeof(current) - current_bytes)
        bytes = sizeof(current) - current_bytes;
    memmove(current + at + bytes, current + at, current_bytes - at);
    memcpy(current + at, data, bytes);
    current_bytes += bytes;
}

static void insert_random(void)
{
    uint8_t data[16];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)draw(256);
    insert_bytes(data, draw(sizeof(data)) + 1);
}

/** A piece of some entry, perhaps of the same. */
static void insert_piece(void)
{
    const struct entry *other = &corpus[draw(corpus_size)];
    size_t at = draw(other->bytes + 1), bytes = draw(other->bytes - at + 1);
    insert_bytes(other->data + at, bytes > 256 && draw(4) ? 256 : bytes);
}

static void overwrite_with_piece(void)
{
    const struct entry *other = &corpus[draw(corpus_size)];
    size_t bytes = draw((other->bytes < current_bytes ? other->bytes : current_bytes) + 1);
    if (bytes > 0)
        memcpy(current + draw(current_bytes - bytes + 1),
               other->data + draw(other->bytes - bytes + 1), bytes);
}

static void mutate(void)
{
    static void (*const changes[])(void) = {change_byte, overwrite_number,    change_byte,
                                            erase_range, insert_random,       insert_piece,
                                            change_byte, overwrite_with_piece};
    for (uint64_t n = 1 + draw(draw(4) ? 3 : 20); n > 0; n--)
        changes[draw(sizeof(changes) / sizeof(changes[0]))]();
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static uint64_t fuzz_for(double seconds)
{
    double end = now_seconds() + seconds;
    uint64_t runs = 0;
    while (corpus_size > 0 && now_seconds() < end)
        for (int i = 0; i < 16; i++, runs++) {
            set_current(&corpus[draw(corpus_size)]);
            mutate();
            run_current();
        }
    return runs;
}

int main(int argc, char **argv)
{
    double seconds = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            state = strtoull(argv[++i], NULL, 0);
        else
            add_path(argv[i]);
    }
    FUZZ_CHECK(corpus_size > 0, "no corpus was named");
    watch_for_death();
    for (size_t i = 0; i < corpus_size; i++) {
        set_current(&corpus[i]);
        run_current();
    }
    uint64_t runs = fuzz_for(seconds);
    printf("%zu inputs replayed, %llu changed ones run\n", corpus_size, (unsigned long long)runs);
    for (size_t i = 0; i < corpus_size; i++)
        free(corpus[i].data);
    return 0;
}
