import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyStore;
import java.util.Base64;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;

/** Writes the key of a keystore as two PEM files: as it is, and sealed with a password. */
public class PemOf {
    public static void main(String[] told) throws Exception {
        char[] opens = told[1].toCharArray();
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(new FileInputStream(told[0]), opens);
        Key key = store.getKey(store.aliases().nextElement(), opens);
        write(told[3], "PRIVATE KEY", key.getEncoded());
        String how = "PBEWithSHA1AndDESede";
        Cipher cipher = Cipher.getInstance(how);
        cipher.init(
                Cipher.ENCRYPT_MODE,
                SecretKeyFactory.getInstance(how).generateSecret(new PBEKeySpec(told[2].toCharArray())));
        byte[] sealed = cipher.doFinal(key.getEncoded());
        write(told[4], "ENCRYPTED PRIVATE KEY", new EncryptedPrivateKeyInfo(cipher.getParameters(), sealed).getEncoded());
    }

    private static void write(String path, String what, byte[] der) throws Exception {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der);
        Files.writeString(Path.of(path), "-----BEGIN " + what + "-----\n" + text + "\n-----END " + what + "-----\n");
    }
}
