/* SPDX-License-Identifier: Apache-2.0 */
#include "base/xml.h"

void wring_xml_put(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc((unsigned char)*text < 32 ? ' ' : *text, file);
        }
}
