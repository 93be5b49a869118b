/* SPDX-License-Identifier: Apache-2.0 */
/** The comparison of all codecs as a page in Markdown, its curves in a picture beside it. */
#ifndef WRING_TOOLS_DEMO_PAGE_H
#define WRING_TOOLS_DEMO_PAGE_H

#include "tools/demo/demo.h"

/**
 * Write both files.
 * @param path  of the page, which ends in ".md"
 * @return false with a line on standard error
 */
bool demo_page_write(const struct demo_results *results, const char *path);

#endif
