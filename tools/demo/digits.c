/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/digits.h"

#include <errno.h>
#include <math.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "tools/demo/random.h"

#define LINE_BYTES 512
#define DIGITS_MAX 100000
#define DIGITS_MIN 100
#define HELD_OUT_SHARE 5 /* one of so many */

/* ---- reading ---- */

/** Read the number at *text, and the comma or the end after it. */
static bool take_number(char **text, long max, uint8_t *out)
{
    char *end;
    long value = strtol(*text, &end, 10);

    if (end == *text || value < 0 || value > max || (*end != ',' && *end != '\0'))
        return false;
    *out = (uint8_t)value;
    *text = *end == ',' ? end + 1 : end;
    return true;
}

static bool parse_line(char *line, struct demo_digit *out)
{
    line[strcspn(line, "\r\n")] = '\0';
    for (int i = 0; i < DEMO_DIGIT_PIXELS; i++)
        if (!take_number(&line, DEMO_DIGIT_LEVELS, &out->pixels[i]))
            return false;
    return take_number(&line, DEMO_DIGIT_CLASSES - 1, &out->digit) && *line == '\0';
}

static int complain(const char *path, uint32_t line, const char *what)
{
    fprintf(stderr, "wring demo: %s, line %u: %s\n", path, line + 1, what);
    return -1;
}

static int read_digits(gzFile file, const char *path, struct demo_digits *out)
{
    char line[LINE_BYTES];
    uint32_t room = 0;

    while (gzgets(file, line, sizeof(line)) != NULL) {
        if (out->n == room) {
            room = room * 2 + 2048;
            struct demo_digit *grown = realloc(out->all, room * sizeof(*grown));
            if (grown == NULL)
                return complain(path, out->n, "out of memory");
            out->all = grown;
        }
        if (out->n == DIGITS_MAX)
            return complain(path, out->n, "too many digits");
        if (!parse_line(line, &out->all[out->n]))
            return complain(path, out->n,
                            "not 64 pixels of 0 to 16 and a digit, separated by commas");
        out->n++;
    }
    int error;
    const char *text = gzerror(file, &error);
    if (error != Z_OK)
        return complain(path, out->n, error == Z_ERRNO ? strerror(errno) : text);
    return out->n >= DIGITS_MIN ? 0 : complain(path, out->n, "too few digits: 100 are needed");
}

/** Bring a fifth of them, drawn by a fixed key, to the front. */
static void split_digits(struct demo_digits *digits)
{
    digits->n_held_out = digits->n / HELD_OUT_SHARE;
    for (uint32_t i = 0; i < digits->n_held_out; i++) {
        uint32_t other = i + (uint32_t)(demo_random(0x73706C6974, i) % (digits->n - i));
        struct demo_digit digit = digits->all[i];
        digits->all[i] = digits->all[other];
        digits->all[other] = digit;
    }
}

int demo_digits_load(const char *path, struct demo_digits *out)
{
    const char *name = path != NULL ? path : DEMO_DIGITS_FILE;
    gzFile file = gzopen(name, "rbe");

    *out = (struct demo_digits){0};
    if (file == NULL) {
        fprintf(stderr, "wring demo: %s: %s%s\n", name, strerror(errno),
                path == NULL ? ": install python3-sklearn, or name a file with --images" : "");
        return -1;
    }
    int failed = read_digits(file, name, out);
    gzclose(file);
    if (failed == 0)
        split_digits(out);
    else
        demo_digits_free(out);
    return failed;
}

uint64_t demo_digits_hash(const struct demo_digits *digits)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    uint64_t hash;

    SHA256((const uint8_t *)digits->all, digits->n * sizeof(*digits->all), digest);
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

void demo_digits_free(struct demo_digits *digits)
{
    free(digits->all);
    *digits = (struct demo_digits){0};
}

/* ---- rendering ---- */

#define TURN 0.45 /* radians, each way */
#define SCALE 0.25
#define SHIFT 2.5 /* pixels of the canvas */
#define NOISE 0.3

/** Brightness between pixels; dark beyond the digit's edge. */
static double pixel_at(const struct demo_digit *digit, int x, int y)
{
    if (x < 0 || y < 0 || x >= DEMO_DIGIT_SIDE || y >= DEMO_DIGIT_SIDE)
        return 0;
    return (double)digit->pixels[y * DEMO_DIGIT_SIDE + x] / DEMO_DIGIT_LEVELS;
}

static double brightness_at(const struct demo_digit *digit, double x, double y)
{
    int left = (int)floor(x), top = (int)floor(y);
    double right = x - left, down = y - top;

    return (1 - down) *
               ((1 - right) * pixel_at(digit, left, top) + right * pixel_at(digit, left + 1, top)) +
           down * ((1 - right) * pixel_at(digit, left, top + 1) +
                   right * pixel_at(digit, left + 1, top + 1));
}

/** The number'th of a key, uniform in ±limit. */
static double uniform_of(uint64_t key, uint64_t number, double limit)
{
    return (2 * demo_uniform(key, number) - 1) * limit;
}

void demo_digit_render(const struct demo_digit *digit, uint64_t key, float *canvas)
{
    double turn = uniform_of(key, 0, TURN), scale = 1 + uniform_of(key, 1, SCALE);
    double middle_x = DEMO_CANVAS_SIDE / 2.0 + uniform_of(key, 2, SHIFT);
    double middle_y = DEMO_CANVAS_SIDE / 2.0 + uniform_of(key, 3, SHIFT);
    double step = (double)DEMO_DIGIT_SIDE / DEMO_CANVAS_SIDE / scale;
    double along = cos(turn) * step, across = sin(turn) * step;

    for (int y = 0; y < DEMO_CANVAS_SIDE; y++)
        for (int x = 0; x < DEMO_CANVAS_SIDE; x++) {
            double dx = x + 0.5 - middle_x, dy = y + 0.5 - middle_y;
            double from_x = along * dx - across * dy + DEMO_DIGIT_SIDE / 2.0 - 0.5;
            double from_y = across * dx + along * dy + DEMO_DIGIT_SIDE / 2.0 - 0.5;
            int i = y * DEMO_CANVAS_SIDE + x;
            canvas[i] = (float)(brightness_at(digit, from_x, from_y) +
                                uniform_of(key, 4 + (uint64_t)i, NOISE));
        }
}
