import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** JSON lines on stdout, in the form of demo/clients/common.py. Safe to call from several threads. */
final class EventLog {
    private final PrintStream out = new PrintStream(
        new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16), false, StandardCharsets.UTF_8);

    /** Logs one event and flushes it; fields is "" or JSON members that begin with a comma. */
    synchronized void event(String ev, String fields) {
        out.print("{\"ev\":\"" + ev + "\",\"t\":" + System.currentTimeMillis() + fields + "}\n");
        out.flush();
    }

    /** Logs an acknowledgement; not flushed until the next flush or event. */
    synchronized void ack(long seq, int partition, long offset) {
        out.print("{\"ev\":\"ack\",\"t\":" + System.currentTimeMillis()
            + ",\"s\":" + seq + ",\"p\":" + partition + ",\"o\":" + offset + "}\n");
    }

    synchronized void flush() {
        out.flush();
    }

    static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ").replace("\t", " ") + "\"";
    }
}
