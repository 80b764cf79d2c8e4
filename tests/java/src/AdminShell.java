import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.Base64;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after another in one JVM: a line of standard input is one command, its arguments split by
 * tabs. What the command prints, on either stream, comes out between the lines {@code BEGIN n} and {@code END n}; then
 * a line {@code RAN n CODE OUT ERR} has its exit code, and each stream alone in Base64.
 */
public final class AdminShell {
    private AdminShell() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream terminal = System.out;
        System.setSecurityManager(new ExitCatcher());
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        terminal.println("READY");
        int number = 0;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            Run run = new Run();
            int code = run.execute(line.isEmpty() ? new String[0] : line.split("\t", -1));
            terminal.println("BEGIN " + number + "\n" + run.both.toString("UTF-8") + "\nEND " + number);
            terminal.println("RAN " + number + " " + code + " " + base64(run.out) + " " + base64(run.err));
            number++;
        }
        Runtime.getRuntime().halt(0);
    }

    private static String base64(ByteArrayOutputStream bytes) {
        return "=" + Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    /** One command, and what it prints. */
    private static final class Run {
        private final ByteArrayOutputStream both = new ByteArrayOutputStream();
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();
        private final ByteArrayOutputStream err = new ByteArrayOutputStream();

        private int execute(String[] command) throws Exception {
            System.setOut(new PrintStream(new Tee(out, both), true, "UTF-8"));
            System.setErr(new PrintStream(new Tee(err, both), true, "UTF-8"));
            int code = 0;
            try {
                MQAdminStartup.main0(command, null);
            } catch (Exited exit) {
                code = exit.code;
            }
            System.out.flush();
            System.err.flush();
            return code;
        }
    }

    /** Writes to two streams. */
    private static final class Tee extends OutputStream {
        private final OutputStream one;
        private final OutputStream other;

        private Tee(OutputStream one, OutputStream other) {
            this.one = one;
            this.other = other;
        }

        @Override
        public void write(int octet) throws java.io.IOException {
            one.write(octet);
            other.write(octet);
        }
    }

    /** mqadmin ends its process when it cannot read its options. */
    private static final class ExitCatcher extends SecurityManager {
        @Override
        public void checkExit(int code) {
            throw new Exited(code);
        }

        @Override
        public void checkPermission(Permission permission) {
            // Everything else is allowed.
        }

        @Override
        public void checkPermission(Permission permission, Object context) {
            // As above.
        }
    }

    /** No Exception: mqadmin catches those. */
    private static final class Exited extends Error {
        private final int code;

        private Exited(int code) {
            super("exit code " + code);
            this.code = code;
        }
    }
}
