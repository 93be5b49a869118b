/* SPDX-License-Identifier: Apache-2.0 */
/* The text of wring demo: all of it is used, once, and the held-out part is not trained on. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tools/demo/corpus.h"

#define WORD "%07u\n" /* eight bytes, unique in a file */
#define WORD_BYTES 8u

struct file {
    char path[32];
};

/** A file of words first..first+n-1. The caller unlinks it. */
static struct file write_words(unsigned first, unsigned n)
{
    struct file file = {"/tmp/wring-demo-XXXXXX"};
    int fd = mkstemp(file.path);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    CHECK(out != NULL, "cannot write %s", file.path);
    for (unsigned i = 0; out != NULL && i < n; i++)
        fprintf(out, WORD, first + i);
    if (out != NULL)
        fclose(out);
    return file;
}

/** How often each word below n is in the part, added to counts. */
static void count_words(const uint8_t *part, uint64_t bytes, unsigned *counts, unsigned n)
{
    for (uint64_t at = 0; at + WORD_BYTES <= bytes; at += WORD_BYTES) {
        char word[WORD_BYTES + 1] = {0};
        memcpy(word, part + at, WORD_BYTES);
        unsigned number = (unsigned)atoi(word);
        CHECK(number < n, "word %u at %llu", number, (unsigned long long)at);
        if (number < n)
            counts[number]++;
    }
}

/** Larger than what is read of a system's file; a whole number of words to a piece. */
static void one_file_is_split_and_all_of_it_used(void)
{
    enum {
        N = 20000
    };
    static unsigned counts[N];
    struct file file = write_words(0, N);
    const char *paths[] = {file.path};
    struct demo_corpus corpus;
    REQUIRE(demo_corpus_load(paths, 1, 7, 4, &corpus) == 0, "refused");
    unlink(file.path);

    CHECK(corpus.files == 1 && corpus.dropped == 0, "%llu files, %llu dropped",
          (unsigned long long)corpus.files, (unsigned long long)corpus.dropped);
    CHECK(corpus.held_out_bytes > N * WORD_BYTES / 20 && corpus.held_out_bytes < N * WORD_BYTES / 5,
          "%llu bytes held out", (unsigned long long)corpus.held_out_bytes);
    memset(counts, 0, sizeof(counts));
    count_words(corpus.train, corpus.train_bytes, counts, N);
    count_words(corpus.held_out, corpus.held_out_bytes, counts, N);
    for (unsigned i = 0; i < N; i++)
        CHECK(counts[i] == 1, "word %u is there %u times", i, counts[i]);
    demo_corpus_free(&corpus);
}

static void duplicates_are_dropped(void)
{
    struct file a = write_words(0, 4096), b = write_words(0, 4096), c = write_words(5000, 100);
    const char *paths[] = {a.path, b.path, c.path};
    struct demo_corpus corpus;
    REQUIRE(demo_corpus_load(paths, 3, 1, 2, &corpus) == 0, "refused");
    CHECK(corpus.files == 2 && corpus.dropped == 1, "%llu files, %llu dropped",
          (unsigned long long)corpus.files, (unsigned long long)corpus.dropped);
    CHECK(corpus.train_bytes + corpus.held_out_bytes == 4196 * WORD_BYTES, "%llu bytes",
          (unsigned long long)(corpus.train_bytes + corpus.held_out_bytes));
    demo_corpus_free(&corpus);
    for (int i = 0; i < 3; i++)
        unlink(paths[i]);
}

static void same_seed_same_split(void)
{
    struct file file = write_words(0, 10000);
    const char *paths[] = {file.path};
    struct demo_corpus a, b, other;
    REQUIRE(demo_corpus_load(paths, 1, 3, 2, &a) == 0, "refused");
    REQUIRE(demo_corpus_load(paths, 1, 3, 2, &b) == 0, "refused");
    REQUIRE(demo_corpus_load(paths, 1, 4, 2, &other) == 0, "refused");
    CHECK(a.train_bytes == b.train_bytes && memcmp(a.train, b.train, a.train_bytes) == 0,
          "seed 3 twice gives two splits");
    CHECK(memcmp(a.held_out, other.held_out, 64) != 0, "seeds 3 and 4 hold out the same");
    demo_corpus_free(&a);
    demo_corpus_free(&b);
    demo_corpus_free(&other);
    unlink(file.path);
}

static void what_is_no_text_is_refused(void)
{
    struct file few = write_words(0, 100), half = write_words(0, 2600);
    const char *missing[] = {"/nonexistent/text"}, *directory[] = {"/tmp"};
    const char *zeros[] = {"/proc/self/exe"}, *short_one[] = {few.path}, *for_two[] = {half.path};
    struct demo_corpus corpus;
    CHECK(demo_corpus_load(missing, 1, 1, 2, &corpus) != 0, "a missing file is text");
    CHECK(demo_corpus_load(directory, 1, 1, 2, &corpus) != 0, "a directory is text");
    CHECK(demo_corpus_load(zeros, 1, 1, 2, &corpus) != 0, "a program is text");
    CHECK(demo_corpus_load(short_one, 1, 1, 2, &corpus) != 0, "800 bytes are enough");
    CHECK(demo_corpus_load(for_two, 1, 1, 64, &corpus) == 0, "20800 bytes are enough for 64");
    demo_corpus_free(&corpus);
    CHECK(demo_corpus_load(for_two, 1, 1, 4096, &corpus) != 0, "4 bytes are enough for a rank");
    unlink(few.path);
    unlink(half.path);
}

static const struct wring_test_case cases[] = {
    {"one file is split and all of it used", one_file_is_split_and_all_of_it_used},
    {"duplicates are dropped", duplicates_are_dropped},
    {"same seed, same split", same_seed_same_split},
    {"what is no text is refused", what_is_no_text_is_refused},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
