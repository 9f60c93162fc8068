/* Counts what is not as it should be. */
#include <stdio.h>

static int failures;

#define CODE(call, code) \
	do { \
		int got = (call); \
		if (got != (code)) \
			printf("%s is %d, not %d\n", #call, got, (code)), failures++; \
	} while (0)
