// Writes murmur2.bin with the Java client's own hash, so that ours can be compared with it:
//
//     java -cp '<directory of the broker's jars>/*' tests/golden/Murmur2Golden.java tests/golden/murmur2.bin
//
// The file: SHA-256 over every key (its length as four bytes, then its bytes), then each key's hash; big-endian.
// tests/kafka/test_partitioning.py makes the same keys.

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import org.apache.kafka.common.utils.Utils;

class Murmur2Golden {
    static final int KEYS = 100_000;

    // Lengths 0 to 200, each equally often; every thousandth key is longer, up to about 12,000 bytes.
    static int length(int number) {
        return number % 1000 == 999 ? 2000 + number / 10 : number % 201;
    }

    // SHA-512 of "number:0", "number:1", ... one after the other, cut to the length.
    static byte[] key(MessageDigest sha512, int number) {
        int length = length(number);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        for (int block = 0; bytes.size() < length; block++) {
            bytes.writeBytes(sha512.digest((number + ":" + block).getBytes(StandardCharsets.US_ASCII)));
        }
        return Arrays.copyOf(bytes.toByteArray(), length);
    }

    public static void main(String[] arguments) throws Exception {
        MessageDigest sha512 = MessageDigest.getInstance("SHA-512");
        MessageDigest checksum = MessageDigest.getInstance("SHA-256");
        ByteArrayOutputStream hashes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(hashes);
        for (int number = 0; number < KEYS; number++) {
            byte[] key = key(sha512, number);
            checksum.update(ByteBuffer.allocate(4).putInt(key.length).array());
            checksum.update(key);
            out.writeInt(Utils.murmur2(key));
        }
        ByteArrayOutputStream file = new ByteArrayOutputStream();
        file.writeBytes(checksum.digest());
        file.writeBytes(hashes.toByteArray());
        Files.write(Path.of(arguments[0]), file.toByteArray());
    }
}
