/* SPDX-License-Identifier: Apache-2.0 */
/** The comparison of all codecs as a part of a page in Markdown, its curves as a picture. */
#ifndef WRING_TOOLS_DEMO_PAGE_H
#define WRING_TOOLS_DEMO_PAGE_H

#include "tools/demo/demo.h"

/**
 * Before the trainings: ask whether both files could be written, and whether a page that is there
 * has both marks or none.
 * @return false with a line on standard error
 */
bool demo_page_check(const struct demo_options *options, const char *path);

/**
 * Write both files. In a page that is there already, only what stands between the marks of this
 * task and optimizer is replaced; a page without the marks gets the part at its end.
 * @param path  of the page, which ends in ".md"
 * @return false with a line on standard error
 */
bool demo_page_write(const struct demo_results *results, const char *path);

#endif
