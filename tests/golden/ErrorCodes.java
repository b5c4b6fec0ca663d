// Writes error-codes.csv with what Kafka's own Java client says of each code that a broker may answer with:
//
//     java -cp '<directory of the broker's jars>/*' tests/golden/ErrorCodes.java tests/golden/error-codes.csv
//
// A line is: number, name, retriable (may the same request be sent again?), moved (is the metadata of who is in charge
// looked up first?). tests/kafka/test_codes.py compares ours with it.

import java.io.PrintWriter;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RefreshRetriableException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

class ErrorCodes {
    public static void main(String[] arguments) throws Exception {
        try (PrintWriter file = new PrintWriter(arguments[0], "UTF-8")) {
            for (Errors error : Errors.values()) {
                Object meant = error.exception();
                boolean moved = meant instanceof InvalidMetadataException || meant instanceof RefreshRetriableException;
                file.printf("%d,%s,%b,%b%n", error.code(), error, meant instanceof RetriableException, moved);
            }
        }
    }
}
