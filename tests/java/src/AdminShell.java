import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs mqadmin commands one after another in one JVM: a line of standard input is one command, its arguments split by
 * tabs. What the command prints, on either stream, comes out between the lines {@code BEGIN n} and {@code END n}.
 */
public final class AdminShell {
    private AdminShell() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream terminal = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        terminal.println("READY");
        int number = 0;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String printed = run(line.split("\t"));
            terminal.println("BEGIN " + number + "\n" + printed + "\nEND " + number);
            number++;
        }
        System.exit(0);
    }

    private static String run(String[] command) throws Exception {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(printed, true, "UTF-8");
        System.setOut(stream);
        System.setErr(stream);
        MQAdminStartup.main0(command, null);
        stream.flush();
        return printed.toString("UTF-8");
    }
}
