/* SPDX-License-Identifier: Apache-2.0 */
/** Text of others in the pictures that we write. */
#ifndef WRING_BASE_XML_H
#define WRING_BASE_XML_H

#include <stdio.h>

/** Write a text as XML's character data or attribute; a space for control characters, which have no
 *  place there. */
void wring_xml_put(FILE *file, const char *text);

#endif
