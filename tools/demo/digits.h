/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Images of handwritten digits, 8 × 8 pixels each, and endless ones made of them: turned, scaled,
 * shifted and noisy, on a canvas of 16 × 16.
 *
 * The file is that of scikit-learn's load_digits(): 1,797 digits of the UCI data set "Optical
 * Recognition of Handwritten Digits" (Alpaydin and Kaynak, 1998).
 */
#ifndef WRING_TOOLS_DEMO_DIGITS_H
#define WRING_TOOLS_DEMO_DIGITS_H

#include <stdint.h>

#define DEMO_DIGIT_SIDE 8
#define DEMO_DIGIT_PIXELS (DEMO_DIGIT_SIDE * DEMO_DIGIT_SIDE)
#define DEMO_DIGIT_LEVELS 16 /* the brightest pixel */
#define DEMO_CANVAS_SIDE 16
#define DEMO_CANVAS (DEMO_CANVAS_SIDE * DEMO_CANVAS_SIDE)
#define DEMO_DIGIT_CLASSES 10

/** Where Debian's python3-sklearn has it. */
#define DEMO_DIGITS_FILE "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"

struct demo_digit {
    uint8_t pixels[DEMO_DIGIT_PIXELS]; /* row after row, 0 to DEMO_DIGIT_LEVELS */
    uint8_t digit;
};

struct demo_digits {
    struct demo_digit *all; /* those held out come first */
    uint32_t n, n_held_out;
};

/**
 * Read a file of lines of 65 numbers: pixels, and which digit they show. It may be compressed by
 * gzip. A fifth of the digits is held out, the same ones each time.
 *
 * @param path  NULL: DEMO_DIGITS_FILE
 * @return 0, or -1 after a line on standard error
 */
int demo_digits_load(const char *path, struct demo_digits *out);

/** Of all pixels, and what they show. */
uint64_t demo_digits_hash(const struct demo_digits *digits);

void demo_digits_free(struct demo_digits *digits);

/**
 * Draw a digit as a camera might see it.
 * @param key     what is done to it depends on this alone
 * @param canvas  out, [DEMO_CANVAS], about 0 to 1
 */
void demo_digit_render(const struct demo_digit *digit, uint64_t key, float *canvas);

#endif
