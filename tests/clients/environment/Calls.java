import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/**
 * Clients of Java, each as its users write it: `java Calls.java CLIENT URL...`
 *
 * Calls each URL once with GET and prints a line for each: the URL, and the status or what went wrong.
 */
public class Calls {
  public static void main(String[] arguments) {
    HttpClient client = HttpClient.newHttpClient();
    for (int at = 1; at < arguments.length; at++) {
      String url = arguments[at];
      try {
        int status =
            arguments[0].equals("HttpClient")
                ? client
                    .send(
                        HttpRequest.newBuilder(URI.create(url)).build(),
                        HttpResponse.BodyHandlers.discarding())
                    .statusCode()
                : old(url);
        System.out.println(url + " " + status);
      } catch (IOException | InterruptedException error) {
        System.out.println(url + " " + error);
      }
    }
  }

  private static int old(String url) throws IOException {
    return ((HttpURLConnection) URI.create(url).toURL().openConnection()).getResponseCode();
  }
}
