/* Both ends of robust header compression as a library that isn't ours has them, behind lines of
 * text: the other side of the test that talks to it. Written against the public interface of
 * librohc alone. Each line is answered by one line; octets are hexadecimal, "-" is nothing.
 *
 *   new u|o small|large CID_MAX REPEATS   forgets everything       ok
 *   c PACKET                              compresses               LINE|-
 *   d LINE                                decompresses             PACKET|- FEEDBACK|- HEARD|-
 *   f FEEDBACK                            tells the compressor     ok|-
 *
 * FEEDBACK is what the decompressor has to tell the compressor it hears, HEARD what came along for
 * its own. UDP to the ports 5000 to 5999 is RTP. Mode o: the decompressor sends feedback. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rohc/rohc_comp.h>
#include <rohc/rohc_decomp.h>

enum { OCTETS_MAX = 0x10000 };

static struct rohc_comp *compressor;
static struct rohc_decomp *decompressor;

static int no_chance(const struct rohc_comp *comp, void *context)
{
	(void)comp, (void)context;
	return 0;
}

static bool is_rtp(const unsigned char *ip, const unsigned char *udp, const unsigned char *payload,
                   unsigned int octets, void *context)
{
	(void)ip, (void)payload, (void)context;
	unsigned int port = udp[2] << 8 | udp[3];
	return port >= 5000 && port <= 5999 && octets >= 12;
}

static void begin(const char *told)
{
	char mode, kind[8];
	unsigned int cid_max, repeats;
	if (sscanf(told, " %c %7s %u %u", &mode, kind, &cid_max, &repeats) != 4)
		exit(2);
	rohc_cid_type_t cids = kind[0] == 'l' ? ROHC_LARGE_CID : ROHC_SMALL_CID;
	if (compressor)
		rohc_comp_free(compressor);
	if (decompressor)
		rohc_decomp_free(decompressor);
	compressor = rohc_comp_new2(cids, cid_max, no_chance, NULL);
	decompressor = rohc_decomp_new2(cids, cid_max, mode == 'o' ? ROHC_O_MODE : ROHC_U_MODE);
	bool done = compressor && decompressor &&
	    rohc_comp_enable_profiles(compressor, ROHC_PROFILE_UNCOMPRESSED, ROHC_PROFILE_RTP,
	                              ROHC_PROFILE_UDP, ROHC_PROFILE_ESP, ROHC_PROFILE_IP,
	                              ROHC_PROFILE_TCP, -1) &&
	    rohc_decomp_enable_profiles(decompressor, ROHC_PROFILE_UNCOMPRESSED, ROHC_PROFILE_RTP,
	                                ROHC_PROFILE_UDP, ROHC_PROFILE_ESP, ROHC_PROFILE_IP,
	                                ROHC_PROFILE_TCP, -1) &&
	    rohc_comp_set_rtp_detection_cb(compressor, is_rtp, NULL) &&
	    rohc_comp_set_optimistic_approach(compressor, repeats);
	if (!done)
		exit(3);
}

static size_t read_octets(const char *text, unsigned char *octets)
{
	size_t count = 0;
	unsigned int octet;
	while (count < OCTETS_MAX && sscanf(text + 2 * count, "%2x", &octet) == 1)
		octets[count++] = octet;
	return count;
}

static void print_octets(struct rohc_buf octets)
{
	static const char digits[] = "0123456789abcdef";
	if (octets.len == 0)
		putchar('-');
	for (size_t at = 0; at < octets.len; at++) {
		putchar(digits[rohc_buf_byte_at(octets, at) >> 4]);
		putchar(digits[rohc_buf_byte_at(octets, at) & 15]);
	}
}

int main(void)
{
	static char line[2 * OCTETS_MAX + 64];
	static unsigned char given[OCTETS_MAX], made[OCTETS_MAX], told[OCTETS_MAX], heard[OCTETS_MAX];
	struct rohc_ts now = { .sec = 0, .nsec = 0 };
	begin("u small 15 4");
	while (fgets(line, sizeof line, stdin)) {
		if (!strncmp(line, "new", 3)) {
			begin(line + 3);
			puts("ok");
			fflush(stdout);
			continue;
		}
		size_t octets = read_octets(line + 2, given);
		struct rohc_buf in = rohc_buf_init_full(given, octets, now);
		struct rohc_buf out = rohc_buf_init_empty(made, OCTETS_MAX);
		struct rohc_buf tells = rohc_buf_init_empty(told, OCTETS_MAX);
		struct rohc_buf hears = rohc_buf_init_empty(heard, OCTETS_MAX);
		switch (line[0]) {
		case 'c':
			if (rohc_compress4(compressor, in, &out) != ROHC_STATUS_OK)
				out.len = 0;
			print_octets(out);
			break;
		case 'd':
			if (rohc_decompress3(decompressor, in, &out, &hears, &tells) != ROHC_STATUS_OK)
				out.len = 0;
			print_octets(out);
			putchar(' ');
			print_octets(tells);
			putchar(' ');
			print_octets(hears);
			break;
		case 'f':
			fputs(rohc_comp_deliver_feedback2(compressor, in) ? "ok" : "-", stdout);
			break;
		default:
			return 2;
		}
		putchar('\n');
		fflush(stdout);
		now.nsec += 20000000;
		if (now.nsec >= 1000000000) {
			now.sec++;
			now.nsec = 0;
		}
	}
	return 0;
}
