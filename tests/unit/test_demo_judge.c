/* SPDX-License-Identifier: Apache-2.0 */
/* What the demo concludes from trainings, what it keeps of them, and the digits that it shows. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/lib/test.h"
#include "tools/demo/digits.h"
#include "tools/demo/judge.h"
#include "tools/demo/store.h"
#include "tools/demo/task.h"

#define SEEDS 3

static const struct demo_config configs[] = {
    {.name = "fp32", .codec = "none"},
    {.name = "bf16", .codec = "bf16"},
    {.name = DEMO_CONTROL, .codec = "onebit"},
};

/** Curves that fall in a straight line from 5 to `last`, a little apart for each seed. */
static void fill_measure(struct demo_measure *measure, const struct demo_config *config,
                         double last, double apart)
{
    measure->config = config;
    for (uint32_t s = 0; s < SEEDS; s++) {
        measure->trainings[s].last_loss = last + apart * ((double)s - 1);
        for (int i = 0; i <= DEMO_EVALS; i++)
            measure->trainings[s].losses[i] =
                5 - (5 - (last + apart * ((double)s - 1))) * i / DEMO_EVALS;
    }
    demo_judge_mean(measure, SEEDS);
}

static struct demo_options options = {
    .task = &demo_task_image, .optimizer_text = "sgd", .steps = 200, .seeds = SEEDS, .ranks = 4};
static struct demo_results results;
static struct demo_judgement judgement;

/** @param control  what the negative control ends at */
static void fill_results(double control, double apart)
{
    memset(&results, 0, sizeof(results));
    options.target_loss = NAN;
    results.options = &options;
    results.n = 3;
    fill_measure(&results.measures[0], &configs[0], 2, apart);
    fill_measure(&results.measures[1], &configs[1], 2.1, apart);
    fill_measure(&results.measures[2], &configs[2], control, apart);
}

static bool is_near(double value, double wanted)
{
    return fabs(value - wanted) < 1e-9;
}

static void differences_are_taken_seed_by_seed(void)
{
    fill_results(3, 0.2);
    demo_judge(&results, &judgement);
    const struct demo_verdict *bf16 = &judgement.verdicts[1];
    CHECK(is_near(bf16->loss.mean, 2.1) && is_near(bf16->loss.deviation, 0.2), "loss %g ± %g",
          bf16->loss.mean, bf16->loss.deviation);
    CHECK(is_near(bf16->to_fp32.mean, 0.1) && bf16->to_fp32.deviation < 1e-9, "to fp32 %g ± %g",
          bf16->to_fp32.mean, bf16->to_fp32.deviation);
    CHECK(is_near(bf16->to_bf16.mean, 0), "to itself %g", bf16->to_bf16.mean);
}

static void seeds_that_lie_too_far_apart_resolve_nothing(void)
{
    fill_results(3, 0.2); /* 0.4 apart, and the control loses 1 */
    demo_judge(&results, &judgement);
    CHECK(is_near(judgement.fp32_range, 0.4) && is_near(judgement.control_loses, 1), "%g, %g",
          judgement.fp32_range, judgement.control_loses);
    CHECK(judgement.resolved, "0.4 is less than half of 1");
    fill_results(2.7, 0.2); /* it loses 0.7 */
    demo_judge(&results, &judgement);
    CHECK(!judgement.resolved, "0.4 is more than half of 0.7");
    results.n = 2; /* without the control */
    demo_judge(&results, &judgement);
    CHECK(!judgement.resolved, "nothing shows what losing looks like");
    options.seeds = 1;
    fill_results(3, 0.2);
    demo_judge(&results, &judgement);
    CHECK(!judgement.resolved, "one seed shows no spread");
    options.seeds = SEEDS;
}

/** Curves have points of fewer samples: what a training ends at is that of all. */
static void last_losses_are_those_of_all_samples(void)
{
    fill_results(3, 0.2);
    for (uint32_t s = 0; s < SEEDS; s++)
        results.measures[1].trainings[s].last_loss += 0.5;
    demo_judge(&results, &judgement);
    CHECK(is_near(judgement.verdicts[1].loss.mean, 2.6) &&
              is_near(judgement.verdicts[1].to_fp32.mean, 0.6),
          "bf16 ends at %g", judgement.verdicts[1].loss.mean);
    CHECK(is_near(judgement.targets[2], 2.1 * 1.001), "the curve's target is %g",
          judgement.targets[2]);
}

static void targets_are_those_of_bf16(void)
{
    fill_results(3, 0.2);
    for (uint32_t i = 0; i < results.n; i++)
        results.measures[i].step_us = 1e6 * (i + 1);
    demo_judge(&results, &judgement);
    CHECK(is_near(judgement.targets[0], 3.55 * 1.001) && is_near(judgement.targets[2], 2.1 * 1.001),
          "%g to %g", judgement.targets[0], judgement.targets[2]);
    const struct demo_verdict *fp32 = &judgement.verdicts[0];
    CHECK(is_near(fp32->steps_to[2], 200 * (5 - 2.1 * 1.001) / 3), "fp32 is there after %g",
          fp32->steps_to[2]);
    CHECK(is_near(fp32->time_to_s[2], fp32->steps_to[2]), "which takes %g s", fp32->time_to_s[2]);
    CHECK(is_near(judgement.verdicts[1].time_to_s[2], 400 * (5 - 2.1 * 1.001) / 2.9),
          "bf16 takes %g s", judgement.verdicts[1].time_to_s[2]);
    CHECK(isnan(judgement.verdicts[2].steps_to[2]), "the control is there after %g steps",
          judgement.verdicts[2].steps_to[2]);
    options.target_loss = 3.5;
    demo_judge(&results, &judgement);
    CHECK(is_near(judgement.verdicts[0].steps_to[2], 100), "3.5 after %g",
          judgement.verdicts[0].steps_to[2]);
}

/** 50 of 200 steps are fp32's, of 1 s; the others take 2 s. */
static void a_warm_up_takes_as_long_as_fp32(void)
{
    fill_results(3, 0.2);
    results.measures[0].step_us = 1e6;
    results.measures[1].step_us = 2e6;
    options.optimizer.warmup = 50;
    CHECK(is_near(demo_judge_time_s(&results, &results.measures[1], 200), 350), "%g s",
          demo_judge_time_s(&results, &results.measures[1], 200));
    CHECK(is_near(demo_judge_time_s(&results, &results.measures[1], 20), 20), "%g s",
          demo_judge_time_s(&results, &results.measures[1], 20));
    options.optimizer.warmup = 0;
}

/** 4000 values of 4 ranks: fp16 sends 3/4 of 8000 bytes to the owners, and as many back. */
static void bytes_are_those_of_all_steps_and_after_the_warm_up(void)
{
    fill_results(3, 0.2);
    results.coded_values = 4000;
    struct demo_measure *m = &results.measures[1];
    CHECK(!demo_judge_warms_up(&results, m), "it has no warm-up");
    m->warmup = 200;
    CHECK(!demo_judge_warms_up(&results, m), "nothing comes after a warm-up of all 200 steps");
    m->warmup = 199;
    CHECK(demo_judge_warms_up(&results, m), "a step comes after it");
    for (uint32_t s = 0; s < SEEDS; s++) {
        m->trainings[s].wire_bytes = 500;
        m->trainings[s].coded_bytes = 399 + s;
        m->trainings[s].late_wire_bytes = 140;
        m->trainings[s].late_coded_bytes = 40;
    }
    struct demo_bytes all = demo_judge_bytes(&results, m, false);
    struct demo_bytes late = demo_judge_bytes(&results, m, true);
    CHECK(is_near(all.wire, 500) && is_near(all.coded, 400), "all: %g, %g", all.wire, all.coded);
    CHECK(is_near(all.fewer, 30) && is_near(all.a_value, 16.0 / 30), "all: %g times fewer, %g bits",
          all.fewer, all.a_value);
    CHECK(is_near(late.wire, 140) && is_near(late.coded, 40) && is_near(late.fewer, 300),
          "late: %g, %g, %g times fewer", late.wire, late.coded, late.fewer);
    m->trainings[0].coded_bytes = NAN;
    CHECK(isnan(demo_judge_bytes(&results, m, false).fewer), "a training that does not say it");
}

/* ---- store ---- */

static void finished_trainings_are_found_again(void)
{
    char path[] = "/tmp/wring-demo-store-XXXXXX";
    struct demo_store store;
    struct demo_training training = {.wire_bytes = 1234.5,
                                     .late_wire_bytes = 7,
                                     .coded_bytes = 99.5,
                                     .late_coded_bytes = 3,
                                     .hash = 1ull << 63},
                         found;
    int fd = mkstemp(path);

    REQUIRE(fd >= 0, "%s", strerror(errno));
    close(fd);
    fill_results(3, 0.2);
    training.losses[3] = 0.1;
    training.losses[4] = NAN;
    training.last_loss = 0.25;
    json_t *key = demo_store_key(&results, &configs[0], 0.1, 7);
    json_t *other = demo_store_key(&results, &configs[0], 0.1, 8);
    REQUIRE(demo_store_open(&store, path), "an empty file is refused");
    CHECK(!demo_store_find(&store, key, 5, &found), "found before it was kept");
    CHECK(demo_store_add(&store, key, 5, &training), "not kept");
    demo_store_close(&store);
    REQUIRE(demo_store_open(&store, path), "what was written is refused");
    CHECK(!demo_store_find(&store, other, 5, &found), "another seed's is taken for it");
    CHECK(!demo_store_find(&store, key, 6, &found), "other data's is taken for it");
    REQUIRE(demo_store_find(&store, key, 5, &found), "not found again");
    CHECK(found.losses[3] == 0.1 && isnan(found.losses[4]) && found.last_loss == 0.25 &&
              found.wire_bytes == 1234.5 && found.late_wire_bytes == 7 &&
              found.coded_bytes == 99.5 && found.late_coded_bytes == 3 && found.hash == 1ull << 63,
          "it came back as something else");
    demo_store_close(&store);
    json_decref(key);
    json_decref(other);
    unlink(path);
}

/** Of trainings that an earlier release kept, the bytes of compressed buckets are not known. */
static void older_lines_are_taken(void)
{
    char path[] = "/tmp/wring-demo-store-XXXXXX";
    struct demo_store store;
    struct demo_training found;
    int fd = mkstemp(path);

    REQUIRE(fd >= 0, "%s", strerror(errno));
    close(fd);
    fill_results(3, 0.2);
    json_t *key = demo_store_key(&results, &configs[0], 0.1, 7);
    json_t *losses = json_array();
    for (int i = 0; i <= DEMO_EVALS; i++)
        json_array_append_new(losses, json_real(2.5));
    json_t *line = json_pack("{s:O, s:o, s:f, s:f, s:s}", "key", key, "losses", losses,
                             "wire_bytes", 8.0, "late_wire_bytes", 7.0, "hash", "1f");
    REQUIRE(json_dump_file(line, path, JSON_COMPACT) == 0, "not written");
    REQUIRE(demo_store_open(&store, path), "an older line is refused");
    REQUIRE(demo_store_find(&store, key, 5, &found), "an older line is not found");
    CHECK(found.last_loss == 2.5, "the last loss is not the curve's but %g", found.last_loss);
    CHECK(found.wire_bytes == 8 && found.hash == 0x1f && isnan(found.coded_bytes) &&
              isnan(found.late_coded_bytes),
          "%g bytes, %g of them compressed", found.wire_bytes, found.coded_bytes);
    demo_store_close(&store);
    json_decref(line);
    json_decref(key);
    unlink(path);
}

/** What a stopped run leaves at the end is cut off; anything else that is no training stays. */
static void a_torn_line_is_cut_off(void)
{
    static const struct {
        const char *text;
        bool taken;
    } files[] = {{"{\"key\":{\"ta", true},
                 {"{\"key\":{\"ta\n", false},
                 {"{\"ke", false},
                 {"{\"key\":{}}", false}};
    struct demo_store store;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[] = "/tmp/wring-demo-store-XXXXXX";
        ssize_t bytes = (ssize_t)strlen(files[i].text);
        int fd = mkstemp(path);
        REQUIRE(fd >= 0 && write(fd, files[i].text, (size_t)bytes) == bytes, "%s", strerror(errno));
        CHECK(demo_store_open(&store, path) == files[i].taken, "%s", files[i].text);
        CHECK(lseek(fd, 0, SEEK_END) == (files[i].taken ? 0 : bytes), "%s: another size",
              files[i].text);
        demo_store_close(&store);
        close(fd);
        unlink(path);
    }
}

/* ---- digits ---- */

#define DIGITS 200

/** A file of digits whose pixels are all alike. */
static void write_digits(const char *path, const char *mode, int lines, const char *last)
{
    gzFile file = gzopen(path, mode);

    REQUIRE(file != NULL, "%s", strerror(errno));
    for (int i = 0; i < lines; i++) {
        for (int k = 0; k < DEMO_DIGIT_PIXELS; k++)
            gzprintf(file, "%d,", i % (DEMO_DIGIT_LEVELS + 1));
        gzprintf(file, "%d\n", i % DEMO_DIGIT_CLASSES);
    }
    gzputs(file, last);
    gzclose(file);
}

static void digits_are_read_plain_and_packed(void)
{
    char path[] = "/tmp/wring-demo-digits-XXXXXX";
    static const char *const modes[] = {"wT", "w"};
    int fd = mkstemp(path);

    REQUIRE(fd >= 0, "%s", strerror(errno));
    close(fd);
    for (int i = 0; i < 2; i++) {
        struct demo_digits digits;
        uint32_t sum = 0;
        write_digits(path, modes[i], DIGITS, "");
        REQUIRE(demo_digits_load(path, &digits) == 0, "mode %s", modes[i]);
        CHECK(digits.n == DIGITS && digits.n_held_out == DIGITS / 5, "%u digits, %u held out",
              digits.n, digits.n_held_out);
        for (uint32_t k = 0; k < digits.n; k++)
            sum += digits.all[k].digit;
        CHECK(sum == DIGITS / 10 * 45, "the split has lost some");
        demo_digits_free(&digits);
    }
    unlink(path);
}

static void wrong_digits_are_refused(void)
{
    static const char *const lines[] = {"1,2,3\n", "x\n", "\n", "17,17\n"};
    char path[] = "/tmp/wring-demo-digits-XXXXXX";
    struct demo_digits digits;
    int fd = mkstemp(path);

    REQUIRE(fd >= 0, "%s", strerror(errno));
    close(fd);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        write_digits(path, "w", DIGITS, lines[i]);
        CHECK(demo_digits_load(path, &digits) != 0, "line %zu is taken", i);
    }
    write_digits(path, "w", 20, "");
    CHECK(demo_digits_load(path, &digits) != 0, "twenty digits are taken");
    CHECK(truncate(path, 40) == 0 && demo_digits_load(path, &digits) != 0,
          "a packed file that ends too early is taken");
    unlink(path);
}

/** A point of light lands near the canvas's middle, whatever is done to it. */
static void a_view_shows_the_digit(void)
{
    struct demo_digit digit = {.digit = 1};
    float canvas[DEMO_CANVAS], again[DEMO_CANVAS];
    double inside = 0, outside = 0;

    for (int y = 3; y < 5; y++)
        for (int x = 3; x < 5; x++)
            digit.pixels[y * DEMO_DIGIT_SIDE + x] = DEMO_DIGIT_LEVELS;
    for (uint64_t key = 0; key < 200; key++) {
        demo_digit_render(&digit, key, canvas);
        demo_digit_render(&digit, key, again);
        CHECK(memcmp(canvas, again, sizeof(canvas)) == 0, "one key, two views");
        for (int y = 0; y < DEMO_CANVAS_SIDE; y++)
            for (int x = 0; x < DEMO_CANVAS_SIDE; x++) {
                bool middle = abs(2 * x - 15) < 10 && abs(2 * y - 15) < 10;
                *(middle ? &inside : &outside) += (double)canvas[y * DEMO_CANVAS_SIDE + x] / 200;
            }
    }
    CHECK(inside > 12 && inside < 20, "%g of light in the middle", inside);
    CHECK(fabs(outside) < 2, "%g of light around it", outside);
}

static const struct wring_test_case cases[] = {
    {"differences are taken seed by seed", differences_are_taken_seed_by_seed},
    {"seeds that lie too far apart resolve nothing", seeds_that_lie_too_far_apart_resolve_nothing},
    {"last losses are those of all samples", last_losses_are_those_of_all_samples},
    {"targets are those of bf16", targets_are_those_of_bf16},
    {"a warm-up takes as long as fp32", a_warm_up_takes_as_long_as_fp32},
    {"bytes are those of all steps and after the warm-up",
     bytes_are_those_of_all_steps_and_after_the_warm_up},
    {"finished trainings are found again", finished_trainings_are_found_again},
    {"older lines are taken", older_lines_are_taken},
    {"a torn line is cut off", a_torn_line_is_cut_off},
    {"digits are read plain and packed", digits_are_read_plain_and_packed},
    {"wrong digits are refused", wrong_digits_are_refused},
    {"a view shows the digit", a_view_shows_the_digit},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
