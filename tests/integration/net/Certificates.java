import java.io.FileInputStream;
import java.io.PrintStream;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/**
 * Makes a certificate authority (ca.pem) in a folder, and for each further argument NAME a private key with a
 * certificate chain signed by it (NAME.pem), for the address 127.0.0.1.
 *
 * keytool itself can do neither in one process nor without PKCS #12, so its commands are called one after another:
 * java --add-exports java.base/sun.security.tools.keytool=ALL-UNNAMED Certificates.java FOLDER [NAME...]
 */
public class Certificates {
    private static final String PASSWORD = "changeit";

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        String ca = folder.resolve("ca.pem").toString();
        keytool(folder, "ca", "-genkeypair", "-keyalg", "EC", "-validity", "3650", "-dname", "CN=authority", "-ext", "bc:c");
        keytool(folder, "ca", "-exportcert", "-rfc", "-file", ca);
        for (int i = 1; i < args.length; i++) {
            String name = args[i];
            String request = folder.resolve(name + ".csr").toString();
            String signed = folder.resolve(name + ".crt").toString();
            keytool(folder, name, "-genkeypair", "-keyalg", "EC", "-validity", "3650", "-dname", "CN=" + name);
            keytool(folder, name, "-certreq", "-file", request);
            keytool(folder, "ca", "-gencert", "-rfc", "-validity", "3650", "-ext", "san=ip:127.0.0.1", "-infile", request, "-outfile", signed);
            keytool(folder, name, "-importcert", "-noprompt", "-alias", "ca", "-file", ca);
            keytool(folder, name, "-importcert", "-noprompt", "-file", signed);
            export(folder, name);
        }
    }

    private static void keytool(Path folder, String store, String... command) throws Exception {
        List<String> all = new ArrayList<>(List.of(command));
        if (!all.contains("-alias")) {
            all.addAll(List.of("-alias", store));
        }
        String keystore = folder.resolve(store + ".p12").toString();
        all.addAll(List.of("-keystore", keystore, "-storetype", "PKCS12", "-storepass", PASSWORD));
        sun.security.tools.keytool.Main.main(all.toArray(new String[0]));
    }

    private static void export(Path folder, String name) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (FileInputStream in = new FileInputStream(folder.resolve(name + ".p12").toFile())) {
            store.load(in, PASSWORD.toCharArray());
        }
        try (PrintStream out = new PrintStream(folder.resolve(name + ".pem").toFile())) {
            print(out, "PRIVATE KEY", store.getKey(name, PASSWORD.toCharArray()).getEncoded());
            for (Certificate certificate : store.getCertificateChain(name)) {
                print(out, "CERTIFICATE", certificate.getEncoded());
            }
        }
    }

    private static void print(PrintStream out, String what, byte[] bytes) {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
        out.print("-----BEGIN " + what + "-----\n" + text + "\n-----END " + what + "-----\n");
    }
}
