/* Prints the library's version, which has to be the header's. */
#include <stdio.h>
#include <string.h>

#include "strandline_pool.h"

int main(void)
{
    char header[64];
    snprintf(header, sizeof header, "%d.%d.%d", SL_VERSION_MAJOR, SL_VERSION_MINOR, SL_VERSION_PATCH);
    puts(sl_version());
    if (strcmp(header, sl_version()) == 0)
        return 0;
    fprintf(stderr, "the header is of version %s\n", header);
    return 1;
}
