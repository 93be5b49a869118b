/* SPDX-License-Identifier: Apache-2.0 */
/* wring demo from outside: one JSON object, a report, one line where something is wrong. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "planner/core/files/tensor_trace.h"
#include "planner/tool/gradients.h"
#include "tests/lib/test.h"

#define REPORT_TEMPLATE "/tmp/wring-demo-report-XXXXXX"

/** Run `wring demo arguments`, one of its streams read to the end. @return exit status */
static int run_demo(const char *arguments, const char *streams, char *text, size_t bytes)
{
    char command[512];
    snprintf(command, sizeof(command), "timeout -k 5 150 '%s' demo %s %s", WRING_TOOL, arguments,
             streams);
    FILE *pipe = popen(command, "r");
    text[0] = '\0';
    if (pipe == NULL)
        return -1;
    size_t n = fread(text, 1, bytes - 1, pipe);
    text[n] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static double number(const json_t *run, const char *key)
{
    const json_t *value = json_object_get(run, key);
    CHECK(json_is_number(value), "%s is no number", key);
    return json_number_value(value);
}

static void check_run(const json_t *run)
{
    const char *config = json_string_value(json_object_get(run, "config"));
    REQUIRE(config != NULL, "a run without its configuration");
    double compute_us = number(run, "compute_us"), step_us = number(run, "step_us");
    CHECK(compute_us > 0 && step_us > 0, "%s: compute %g, step %g", config, compute_us, step_us);
    CHECK(fabs(number(run, "exposed_us") - (step_us - compute_us)) < 1, "%s: exposed", config);
    CHECK(number(run, "loss") > 0.5 && number(run, "loss") < 6, "%s: loss", config);
    CHECK(number(run, "cores") > 0, "%s: allreduce costs no processor time", config);
    CHECK(json_is_true(json_object_get(run, "same_bits")), "%s: bits depend on the link", config);
    CHECK(json_object_get(run, "time_to_target_s") != NULL, "%s: no time to target", config);
    CHECK(number(run, "bf16_loss_then") > 0.5, "%s: bf16's loss by then", config);
}

/** Two ranks, direct allreduce: each sends half of its tensors and gets the other half summed. */
static void check_sizes(const json_t *runs, double parameters)
{
    double wire[6];
    for (size_t i = 0; i < 6; i++)
        wire[i] = number(json_array_get(runs, i), "wire_bytes");
    CHECK(fabs(wire[0] / (4 * parameters) - 1) < 0.05, "fp32 sends %g bytes", wire[0]);
    CHECK(fabs(wire[1] / (2 * parameters) - 1) < 0.05, "bf16 sends %g bytes", wire[1]);
    CHECK(wire[2] < 0.6 * wire[1], "int8 sends %g bytes", wire[2]);
    CHECK(wire[3] < 0.3 * wire[2], "onebit sends %g bytes", wire[3]);
    CHECK(wire[4] < wire[3], "topk sends %g bytes", wire[4]);
    CHECK(wire[5] == wire[3], "error feedback changes what is sent: %g, %g", wire[3], wire[5]);
    for (size_t i = 0; i < 6; i++) {
        const json_t *run = json_array_get(runs, i);
        double fp32 = number(json_array_get(runs, 0), "step_us") / number(run, "step_us");
        CHECK(fabs(number(run, "speedup_fp32") / fp32 - 1) < 1e-6, "speed-up of run %zu", i);
    }
}

static void check_report(const char *path)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL, "no report at %s", path);
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    CHECK(strstr(text, "</html>") != NULL, "the report has no end");
    CHECK(strstr(text, "negative control") != NULL, "the negative control is not named");
    CHECK(strstr(text, "<polyline") != NULL, "no loss curve");
    CHECK(strstr(text, "http://") == NULL && strstr(text, "https://") == NULL &&
              strstr(text, "src=") == NULL,
          "the report needs something else than itself");
    CHECK(strstr(text, "nan") == NULL && strstr(text, "inf'") == NULL, "a picture of no number");
}

/** Seven gradients in the order in which backward makes them, each at a time of its own or later.
 */
static void check_trace(const char *path, double parameters)
{
    const struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_tensor_trace *trace = NULL;
    uint64_t elems = 0;
    REQUIRE(wring_tensor_trace_load(path, &log, &trace) == WRING_OK, "no trace at %s", path);
    for (uint32_t i = 0; i < trace->n; i++)
        elems += trace->tensors[i].elems;
    CHECK(trace->n == 7 && (double)elems == parameters, "%u tensors of %llu elements", trace->n,
          (unsigned long long)elems);
    CHECK(strcmp(trace->tensors[0].name, "output.bias") == 0 &&
              strcmp(trace->tensors[trace->n - 1].name, "embedding.weight") == 0,
          "not in backward order");
    CHECK(trace->optimizer_us > 0, "no time of the optimizer");
    CHECK(trace->forward_us > 0 && trace->tensors[0].ready_us > 0 &&
              trace->tensors[trace->n - 1].ready_us > trace->tensors[0].ready_us,
          "forward %g us, gradients from %g to %g", trace->forward_us, trace->tensors[0].ready_us,
          trace->tensors[trace->n - 1].ready_us);
    CHECK(strncmp(trace->source, "measured by wring demo: rank 0 of 2", 35) == 0, "%s",
          trace->source);
    wring_tensor_trace_destroy(trace);
}

/** None of a rank's gradients is all zeros, nor the same as another rank's. */
static void check_values(const struct wring_gradients *gradients, uint32_t rank, uint32_t step,
                         uint32_t t)
{
    const float *values = wring_gradients_at(gradients, rank, step, t),
                *others = wring_gradients_at(gradients, 0, step, t);
    size_t bytes = gradients->tensors[t].n * sizeof(float);
    double power = 0;

    for (uint32_t i = 0; i < gradients->tensors[t].n; i++)
        power += (double)values[i] * (double)values[i];
    CHECK(power > 0, "rank %u, step %u: nothing of %s", rank, step, gradients->tensors[t].name);
    CHECK(rank == 0 || memcmp(values, others, bytes) != 0, "rank %u has rank 0's %s", rank,
          gradients->tensors[t].name);
}

/** Whole tensors where they are small, of steps that follow each other. */
static void check_gradients(const char *path, uint32_t ranks, const char *whose)
{
    const struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_gradients *gradients = NULL;
    REQUIRE(wring_gradients_load(path, &log, &gradients) == WRING_OK, "no gradients at %s", path);
    CHECK(gradients->n_ranks == ranks, "of %u ranks, not %u", gradients->n_ranks, ranks);
    CHECK(gradients->n_tensors == 7 && gradients->n_steps == 16 && gradients->steps[0] == 11 &&
              gradients->steps[7] == 18 && gradients->steps[8] == 36 && gradients->steps[15] == 43,
          "%u tensors, %u steps from %llu", gradients->n_tensors, gradients->n_steps,
          (unsigned long long)gradients->steps[0]);
    for (uint32_t t = 0; t < gradients->n_tensors; t++)
        CHECK(gradients->tensors[t].n == gradients->tensors[t].elems, "%s is cut",
              gradients->tensors[t].name);
    CHECK(strcmp(gradients->tensors[0].name, "output.bias") == 0 && gradients->tensors[0].n == 256,
          "not in backward order");
    for (uint32_t rank = 0; rank < gradients->n_ranks; rank++)
        for (uint32_t step = 0; step < gradients->n_steps; step++)
            for (uint32_t t = 0; t < gradients->n_tensors; t++)
                check_values(gradients, rank, step, t);
    CHECK(strstr(gradients->source, whose) != NULL &&
              strstr(gradients->source, "with fp32") != NULL,
          "%s", gradients->source);
    wring_gradients_destroy(gradients);
}

static void make_file(char *template)
{
    int fd = mkstemp(template);
    REQUIRE(fd >= 0, "%s", strerror(errno));
    close(fd);
}

static void all_configurations(void)
{
    static char text[1 << 16];
    char arguments[300], path[] = REPORT_TEMPLATE, trace_path[] = REPORT_TEMPLATE,
                         gradients_path[] = REPORT_TEMPLATE;
    make_file(path);
    make_file(trace_path);
    make_file(gradients_path);
    snprintf(arguments, sizeof(arguments),
             "-n 2 --steps 47 --timed-steps 20 --hidden 64 --seed 5 --json --report %s "
             "--record-trace %s --record-gradients %s --record-ranks 2",
             path, trace_path, gradients_path);
    int code = run_demo(arguments, "", text, sizeof(text));
    CHECK(code == 0, "exit status %d", code);
    json_t *all = json_loads(text, 0, NULL);
    const json_t *runs = json_object_get(all, "runs");
    CHECK(json_array_size(runs) == 6, "no JSON object of six runs: %.200s", text);
    for (size_t i = 0; i < json_array_size(runs); i++)
        check_run(json_array_get(runs, i));
    if (json_array_size(runs) == 6)
        check_sizes(runs, number(all, "parameters"));
    CHECK(number(all, "ranks") == 2 && number(all, "steps") == 47 && number(all, "seed") == 5,
          "options that were not taken");
    const char *report = json_string_value(json_object_get(all, "report"));
    CHECK(report != NULL && strcmp(report, path) == 0, "report");
    check_report(path);
    check_trace(trace_path, number(all, "parameters"));
    check_gradients(gradients_path, 2, "each of the first 2 of 2");
    unlink(trace_path);
    unlink(gradients_path);
    json_decref(all);
    unlink(path);
}

/** Unless told otherwise, rank 0 alone. */
static void one_rank_records(void)
{
    char arguments[200], text[4096], path[] = REPORT_TEMPLATE;

    make_file(path);
    snprintf(arguments, sizeof(arguments),
             "-n 2 --losses-only --codec fp32 --steps 47 --hidden 64 --seed 5 "
             "--record-gradients %s",
             path);
    int code = run_demo(arguments, "", text, sizeof(text));
    CHECK(code == 0, "exit status %d", code);
    check_gradients(path, 1, "rank 0 of 2");
    unlink(path);
}

/** A file of digits, each of which lights a place of its own. */
static void make_digits(char *path)
{
    int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    REQUIRE(file != NULL, "%s", strerror(errno));
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 64; k++)
            fprintf(file, "%d,", k / 6 == i % 10 ? 16 : 0);
        fprintf(file, "%d\n", i % 10);
    }
    fclose(file);
}

static void write_text(const char *path, const char *mode, const char *text)
{
    FILE *file = fopen(path, mode);

    REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "%s: %s", path,
            strerror(errno));
}

static size_t count_in(const char *text, const char *what)
{
    size_t n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

#define BEGIN_MARK "<!-- begin: wring demo --task image --optimizer onebit-adam:warmup=20 -->\n"
#define END_MARK "<!-- end: wring demo --task image --optimizer onebit-adam:warmup=20 -->\n"

/** Written twice, the table stands there once, and what others wrote stands around it. */
static void check_page(const char *path)
{
    char text[8192];
    FILE *file = fopen(path, "r");

    REQUIRE(file != NULL, "no page at %s", path);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    CHECK(strncmp(text, "before\n\n" BEGIN_MARK "Task image: ", 11 + strlen(BEGIN_MARK)) == 0,
          "begins %.200s", text);
    const char *end = strstr(text, END_MARK);
    CHECK(end != NULL && strcmp(end, END_MARK "after\n") == 0, "ends %s", end);
    CHECK(count_in(text, BEGIN_MARK) == 1 && count_in(text, "| `onebit:block=64+ef` | 0.") == 1 &&
              count_in(text, "| `onebit:block=64+ef` | all 40 |") == 1,
          "the table stands there twice: %s", text);
    CHECK(count_in(text, "(codecs-image-onebit-adam-warmup-20.svg)") == 1, "no picture: %s", text);
}

/** A second time all trainings are taken from the file, and nothing else is said. */
static void a_series_goes_on(void)
{
    static char text[2][1 << 16];
    char arguments[400], digits[] = "/tmp/wring-demo-digits-XXXXXX",
                         folder[] = "/tmp/wring-demo-series-XXXXXX", name[128], page[64];

    make_digits(digits);
    REQUIRE(mkdtemp(folder) != NULL, "%s", strerror(errno));
    snprintf(page, sizeof(page), "%s/codecs.md", folder);
    snprintf(arguments, sizeof(arguments),
             "--task image --images %s --optimizer onebit-adam:warmup=20 --losses-only --seeds 2 "
             "--codec fp32,onebit:block=64+ef -n 2 --batch 8 --steps 40 --hidden 16 "
             "--results %s/results --table %s --json",
             digits, folder, page);
    write_text(page, "w", "before\n");
    for (int i = 0; i < 2; i++) {
        int code = run_demo(arguments, "", text[i], sizeof(text[i]));
        CHECK(code == 0, "run %d: exit status %d", i, code);
        if (i == 0)
            write_text(page, "a", "after\n");
    }
    check_page(page);
    CHECK(strcmp(text[0], text[1]) == 0, "a series taken from its file says %s", text[1]);
    json_t *all = json_loads(text[1], 0, NULL);
    const json_t *run = json_array_get(json_object_get(all, "runs"), 1);
    const json_t *trainings = json_object_get(run, "trainings");
    CHECK(json_array_size(trainings) == 2, "%zu trainings", json_array_size(trainings));
    double ended = number(json_object_get(run, "final_loss"), "mean");
    CHECK(ended != number(run, "loss") && fabs(ended - number(run, "loss")) < 0.5,
          "%g is no loss of more views than the curve's %g", ended, number(run, "loss"));
    for (size_t s = 0; s < json_array_size(trainings); s++) {
        const json_t *training = json_array_get(trainings, s);
        CHECK(number(training, "seed") == (double)s + 1, "seed of training %zu", s);
        CHECK(number(training, "late_wire_bytes") < 0.5 * number(training, "wire_bytes"),
              "the warm-up of training %zu is compressed", s);
    }
    json_decref(all);
    write_text(page, "w", BEGIN_MARK "no end\n");
    int code = run_demo(arguments, "2>&1 >/dev/null", text[0], sizeof(text[0]));
    CHECK(code == 1 && strstr(text[0], "is missing") != NULL, "a part without an end: %d, %s", code,
          text[0]);
    static const char *const names[] = {"results", "codecs.md",
                                        "codecs-image-onebit-adam-warmup-20.svg"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(name, sizeof(name), "%s/%s", folder, names[i]);
        CHECK(unlink(name) == 0, "no %s", names[i]);
    }
    rmdir(folder);
    unlink(digits);
}

static double member(const json_t *run, const char *object, const char *key)
{
    return number(json_object_get(run, object), key);
}

/** 131,072, 262,144 and 135,168 values each way in units of a shard, for which 4 + 4 * count bytes
 *  travel; from step 20 of 40 on, a count is about a thousandth. */
static void a_warmed_up_ratio_says_its_bytes_twice(void)
{
    static char text[1 << 16];
    char page[8192], path[] = "/tmp/wring-demo-warmed-XXXXXX.md", arguments[300], picture[64];
    int fd = mkstemps(path, 3);

    REQUIRE(fd >= 0, "%s", strerror(errno));
    close(fd);
    snprintf(arguments, sizeof(arguments),
             "--losses-only --steps 40 --codec fp32,topk:ratio=0.001/bf16+warmup:steps=20+ef "
             "--table %s --json",
             path);
    int code = run_demo(arguments, "", text, sizeof(text));
    CHECK(code == 0, "exit status %d", code);
    json_t *all = json_loads(text, 0, NULL);
    const json_t *fp32 = json_array_get(json_object_get(all, "runs"), 0),
                 *topk = json_array_get(json_object_get(all, "runs"), 1);
    CHECK(json_is_null(json_object_get(fp32, "after_warmup")), "fp32 has no warm-up");
    CHECK(fabs(member(fp32, "whole_run", "bits_a_value") - 32) < 0.01 &&
              fabs(member(fp32, "whole_run", "fewer_than_fp16") - 0.5) < 0.001,
          "fp32 takes %g bits", member(fp32, "whole_run", "bits_a_value"));
    CHECK(member(topk, "whole_run", "steps") == 40 && member(topk, "after_warmup", "steps") == 20,
          "the warm-up is not 20 of 40 steps");
    CHECK(member(topk, "final_loss", "mean") == number(topk, "loss"),
          "a text's curve does not end at the last loss");
    double late = member(topk, "after_warmup", "bits_a_value");
    CHECK(late > 0.025 && late < 0.048, "%g bits after the warm-up", late);
    CHECK(fabs(member(topk, "after_warmup", "fewer_than_fp16") * late - 16) < 1e-6,
          "%g times fewer than 16 bits", member(topk, "after_warmup", "fewer_than_fp16"));
    /* stages of 5 steps send 1/4, 1/16, 1/64 and 1/256 */
    double whole = member(topk, "whole_run", "bits_a_value");
    CHECK(whole > 1.2 && whole < 1.7, "%g bits in the whole run", whole);
    json_decref(all);
    FILE *file = fopen(path, "r");
    REQUIRE(file != NULL, "no page at %s", path);
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    fclose(file);
    CHECK(count_in(page, "\n| `topk:ratio=0.001/bf16+warmup:steps=20+ef` | all 40 | ") == 1 &&
              count_in(page, "\n| | 20 after warm-up | ") == 1,
          "the page says: %s", page);
    snprintf(picture, sizeof(picture), "%.*s-text-sgd.svg", (int)strlen(path) - 3, path);
    CHECK(unlink(picture) == 0 && unlink(path) == 0, "no picture %s", picture);
    code = run_demo("--losses-only --steps 40 --hidden 16 -n 2 --codec "
                    "fp32,topk:ratio=0.01+warmup:steps=20+ef,dgc:warmup=8",
                    "", text, sizeof(text));
    CHECK(code == 0 && count_in(text, "  with warm-up     40 steps: ") == 2 &&
              count_in(text, "  after it         20 steps: ") == 1 &&
              count_in(text, "  after it         32 steps: ") == 1,
          "the table says: %d, %s", code, text);
}

static void bad_input_is_one_line(void)
{
    static const struct {
        const char *arguments, *says;
        int code;
    } bad[] = {
        {"--link fast", "--link needs a rate", 2},
        {"--losses-only --record-trace x", "--record-trace needs times", 2},
        {"--ranks 1", "--ranks needs a number", 2},
        {"--record-ranks 2", "--record-ranks goes with --record-gradients", 2},
        {"-n 2 --record-gradients x --record-ranks 3", "--record-ranks 3: there are 2 ranks", 2},
        {"--codec fp31", "fp31", 2},
        {"--codec int8:block=7", "block", 2},
        {"--optimizer sgdx", "--optimizer is", 2},
        {"--task sound", "--task is text or image", 2},
        {"--images x", "--images goes with --task image", 2},
        {"--table x", "ends in .md", 2},
        {"--task image --images /nonexistent/digits", "/nonexistent/digits: No such file", 1},
        {"--task image --images /proc/self/status", "line 1: not 64 pixels", 1},
        {"--text /nonexistent/text", "/nonexistent/text: No such file", 1},
        {"--text /proc/self/exe", "no text", 1},
    };
    char text[4096];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int code = run_demo(bad[i].arguments, "2>&1 >/dev/null", text, sizeof(text));
        CHECK(code == bad[i].code, "%s: exit status %d", bad[i].arguments, code);
        CHECK(strstr(text, bad[i].says) != NULL, "%s: %s", bad[i].arguments, text);
        const char *first = strstr(text, "wring demo:");
        CHECK(first != NULL && strstr(first + 1, "wring demo:") == NULL, "%s: says it twice: %s",
              bad[i].arguments, text);
    }
}

/** Rank 1 is the one child of the launcher with WRING_RANK=1 in its environment. */
static const char kill_rank_1[] =
    "& demo=$!; n=0; victim=; while [ -z \"$victim\" ] && [ $n -lt 600 ]; do n=$((n+1)); sleep 0.1;"
    " for p in $(cat /proc/$demo/task/$demo/children 2>/dev/null); do"
    " tr '\\0' '\\n' </proc/$p/environ 2>/dev/null | grep -qx WRING_RANK=1 && victim=$p; done; "
    "done;"
    " sleep 1; all=$(cat /proc/$demo/task/$demo/children); kill -9 $victim; wait $demo;"
    " code=$?; for p in $all; do [ -d /proc/$p ] && echo left $p; done; exit $code";

static void a_killed_rank_ends_it_all(void)
{
    char command[2048], text[8192];
    snprintf(command, sizeof(command),
             "exec 2>&1; '%s' demo -n 3 --steps 1000000 --hidden 64 --losses-only --codec fp32 %s",
             WRING_TOOL, kill_rank_1);
    FILE *pipe = popen(command, "r");
    REQUIRE(pipe != NULL, "%s", strerror(errno));
    size_t n = fread(text, 1, sizeof(text) - 1, pipe);
    text[n] = '\0';
    int status = pclose(pipe);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 0, "status %d: %s", status, text);
    CHECK(strstr(text, "rank 1") != NULL, "does not name rank 1: %s", text);
    size_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    /* of each of the two that are left up to three, where it hits ranks that are opening or
       committing: who noticed, what became of the session, what was to be done; the launcher's;
       and where the three ranks were, under a line that sums up */
    CHECK(lines <= 11, "takes %zu lines to say it: %s", lines, text);
    CHECK(strstr(text, "left") == NULL, "processes are left: %s", text);
}

static const struct wring_test_case cases[] = {
    {"all configurations", all_configurations},
    {"one rank records", one_rank_records},
    {"a series goes on", a_series_goes_on},
    {"a warmed-up ratio says its bytes twice", a_warmed_up_ratio_says_its_bytes_twice},
    {"bad input is one line", bad_input_is_one_line},
    {"a killed rank ends it all", a_killed_rank_ends_it_all},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
