/* Preloaded as well, it has the C library seem to be of a version that is not known. */
const char *gnu_get_libc_version(void);

const char *gnu_get_libc_version(void)
{
	return "2.99";
}
